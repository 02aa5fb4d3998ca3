"""Import and export tenant documents.

Each module handles one step or one type of line. Files of changes are read in `grants.plans.sources`.
"""

from grants.tenant.export_document import export_tenant, tenant_lines
from grants.tenant.import_document import import_tenant, rehearsed_import
from grants.tenant.lines import MemberReader
from grants.tenant.reading import UNREADABLE, Fault, Faults, parse_line_json
