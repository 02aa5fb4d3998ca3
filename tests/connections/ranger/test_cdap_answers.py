"""Policies give the answers that CDAP expects of its plugin: `RangerAuthorizerTest` of cdap-security-extn, with
new policies.
"""

import pytest
from django.utils import timezone

from authzconsole.connections.ranger.evaluation import Enforcer, Subject
from authzconsole.connections.ranger.matching import RANGER_0_7
from entities.address import parse_address
from entities.vocabulary import Privilege
from tests.connections.ranger.policy_files import NOTHING_BELOW, policy, policy_file

POLICIES = [
    policy("ali", "admin", namespace="default", dataset="testdataset"),
    policy("rsinha", "admin", namespace="default", artifact=NOTHING_BELOW),
    policy("poorna", "read", namespace=NOTHING_BELOW, application=NOTHING_BELOW, program=NOTHING_BELOW),
    policy(
        "matt", "read execute", namespace="anotherns", application="testapp", program="workflow.testworkflow"
    ),
    policy("derek", "read", namespace="default", dataset_type="io.cdap.table_1_mod"),
    policy("albert", "read", namespace="default", dataset_module="io.cdap.*"),
    policy("sree", "read", namespace="default", artifact="DataPipeline"),
    policy("sagar", "admin", namespace="default", dataset="?*"),
    policy("shankar", "admin", namespace="default", application="testapp", program="workflow.?*"),
    policy("yaojie", "execute", namespace="default", application="testapp", program="?*"),
]
# the artifact without a version, and the application without one, as CDAP passes neither to Ranger
ANSWERS = """
ali ADMIN dataset:default.testdataset yes
ali sees namespace:default yes
ali sees dataset:default.testdataset yes
ali ADMIN dataset:default.anotherdataset no
ali sees namespace:anothernamespace no
ali READ dataset:default.testdataset no
ali ADMIN namespace:default no
rsinha ADMIN namespace:default yes
rsinha ADMIN namespace:anothernamespace no
rsinha sees namespace:default yes
rsinha sees dataset:default.testdataset no
rsinha sees namespace:anothernamespace no
rsinha ADMIN instance:cdap no
rsinha WRITE namespace:default no
rsinha ADMIN dataset:default.testdataset no
poorna READ instance:cdap yes
poorna sees namespace:default no
poorna READ namespace:default no
poorna ADMIN instance:cdap no
matt READ program:anotherns.testapp.workflow.testworkflow yes
matt EXECUTE program:anotherns.testapp.workflow.testworkflow yes
matt READ program:anotherns.testapp.workflow.anotherworkflow no
matt READ program:anotherns.testapp.mapreduce.testworkflow no
matt READ application:anotherns.testapp no
matt sees application:anotherns.testapp yes
matt sees namespace:anotherns yes
matt sees namespace:default no
matt EXECUTE program:default.testapp.workflow.testworkflow no
derek READ dataset_type:default.io.cdap.table_1_mod yes
derek READ dataset_type:anotherns.io.cdap.table_1_mod no
derek READ dataset_type:default.io.cdap no
albert READ dataset_module:default.io.cdap.table_1_mod yes
albert READ dataset_module:default.io.cdap.table_2_mod yes
albert READ dataset_type:anotherns.io.cdap.table_1_mod no
albert READ dataset_type:default.io.cdap no
sree READ artifact:default.DataPipeline yes
sree READ artifact:anotherns.DataPipeline no
sree READ artifact:default.datapipeline no
sagar ADMIN dataset:default.testdataset yes
sagar ADMIN dataset:default.anotherdataset yes
sagar READ dataset:default.testdataset no
sagar ADMIN namespace:default no
sagar sees namespace:default yes
sagar sees dataset:default.testdataset yes
sagar sees namespace:anothernamespace no
sagar ADMIN dataset:anothernamespace.testdataset no
shankar ADMIN program:default.testapp.workflow.prog1 yes
shankar ADMIN program:default.testapp.workflow.prog2 yes
shankar ADMIN program:default.testapp.mapreduce.prog1 no
shankar READ program:default.testapp.workflow.prog1 no
shankar ADMIN application:default.testapp no
shankar sees application:default.testapp yes
shankar sees namespace:default yes
shankar sees namespace:anothernamespace no
shankar sees program:default.testapp.mapreduce.prog1 no
yaojie EXECUTE program:default.testapp.workflow.prog1 yes
yaojie EXECUTE program:default.testapp.workflow.prog2 yes
yaojie EXECUTE program:default.testapp.mapreduce.prog1 yes
yaojie sees namespace:default yes
yaojie sees application:default.testapp yes
yaojie EXECUTE program:test.testapp.mapreduce.prog1 no
""".split("\n")[1:-1]


@pytest.fixture(scope="module")
def plugin() -> Enforcer:
    return Enforcer(policy_file(*POLICIES), RANGER_0_7, timezone.now())


@pytest.mark.parametrize("line", ANSWERS)
def test_the_plugin_answers_as_cdap_expects(plugin, line):
    user, question, text, answer = line.split()
    subject, address = Subject(user), parse_address(text)
    given = (
        plugin.is_visible(subject, address)
        if question == "sees"
        else plugin.enforce(subject, address, Privilege[question])
    )
    assert given == (answer == "yes")
