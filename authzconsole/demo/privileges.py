"""The grants of the demo tenant and their reasons.

TEAMS: the privileges of a group in its namespace, by kind, with the reasons of its members.
SINGLE_GRANTS: all other grants, one per line: principal | entity | privileges | reason.
"""

from typing import NamedTuple


class Team(NamedTuple):
    """The grants of a principal on all live entities of some kinds in a namespace.

    kinds, privileges and excluded_keys are separated by spaces. Each grant gets one of the reasons.
    """

    principal: str
    namespace: str
    kinds: str
    privileges: str
    reasons: tuple[str, ...] = ()
    excluded_keys: str = ""


CUSTOMERS = """sales.customer_360 sales.customer_360.spark.match_customers sales.customer_360.workflow.nightly_match
    sales.customer_360.service.customer_lookup sales.customer_360.mapreduce.erasure_requests sales.customers
    sales.customers.matched sales.gift.cards"""
SOLVERS = """logistics.route_planner.spark.optimise_tours logistics.route_planner.spark.travel_times
    logistics.demand_forecast.spark.train_demand"""
INGRIDS = """finance.vat_return finance.vat_return.workflow.quarterly_return finance.vat_return.spark.vat_checks
    finance.vat.returns finance.tax-portal-cert"""
VIKTORS = "finance.budget.2025 finance.ledger-db-password"
PAYROLL = "finance.payroll.hours finance.payroll.payments"

TEAMS = [
    Team(
        "group:sales-engineering",
        "sales",
        "dataset stream",
        "READ WRITE ADMIN",
        (
            "our own data, see the ownership list of January",
            "DP-1104: one team owns a dataset from intake to report",
            "taken over from the platform team after the reorganisation",
        ),
        CUSTOMERS,
    ),
    Team(
        "group:sales-engineering",
        "sales",
        "program",
        "EXECUTE ADMIN",
        (
            "on-call for order pipelines",
            "we build it, we run it",
            "DP-1187: restarts without waking the platform team",
        ),
        CUSTOMERS,
    ),
    Team(
        "group:sales-engineering",
        "sales",
        "application",
        "ADMIN",
        ("deploys every second Tuesday", ""),
        CUSTOMERS,
    ),
    Team(
        "group:sales-engineering",
        "sales",
        "artifact dataset_module dataset_type",
        "READ ADMIN",
        ("releases come from our build server", ""),
    ),
    Team("group:platform-operations", "sales", "securekey", "ADMIN", ("keys are rotated by operations",)),
    Team(
        "group:logistics-engineering",
        "logistics",
        "dataset stream",
        "READ WRITE ADMIN",
        ("warehouse and fleet data belong to logistics", "DP-1260: owner of record", ""),
    ),
    Team(
        "group:logistics-engineering",
        "logistics",
        "program",
        "EXECUTE ADMIN",
        (
            "night shift has to restart this before the vans leave",
            "we are the ones who get the call at four",
            "DP-1262: run by logistics since the move to Hall 2",
        ),
        SOLVERS,
    ),
    Team(
        "group:logistics-engineering",
        "logistics",
        "application artifact dataset_module dataset_type securekey",
        "ADMIN",
        ("owner of record, DP-1260", ""),
    ),
    Team("group:platform-operations", "logistics", "securekey", "ADMIN", ("keys are rotated by operations",)),
    Team(
        "group:finance-stewards",
        "finance",
        "dataset",
        "READ ADMIN",
        (
            "data stewards of finance, board decision 12/2024",
            "month-end reconciliation",
            "stewardship list, Rajesh",
        ),
        f"{INGRIDS} {VIKTORS} {PAYROLL}",
    ),
    Team(
        "group:finance-stewards",
        "finance",
        "stream",
        "READ ADMIN",
        ("to see whether the feed of the bank has arrived",),
    ),
    Team(
        "group:finance-stewards",
        "finance",
        "program",
        "EXECUTE ADMIN",
        ("may be started by hand during the close", "stewardship list, Rajesh"),
        INGRIDS,
    ),
    Team(
        "group:finance-stewards",
        "finance",
        "application artifact dataset_module dataset_type securekey",
        "ADMIN",
        ("stewardship list, Rajesh", ""),
        f"{INGRIDS} {VIKTORS}",
    ),
    Team(
        "group:marketing-analytics",
        "marketing",
        "dataset stream",
        "READ WRITE ADMIN",
        ("campaign planning", "our segments, our responsibility", "agreed with Amélie at the spring offsite"),
    ),
    Team(
        "group:marketing-analytics",
        "marketing",
        "program",
        "EXECUTE ADMIN",
        ("campaigns go out on Thursdays, somebody must be able to stop them", "DP-1311", ""),
    ),
    Team(
        "group:marketing-analytics",
        "marketing",
        "application artifact dataset_module dataset_type securekey",
        "ADMIN",
        ("marketing owns its tools since DP-1311", ""),
    ),
    Team(
        "group:risk-analytics",
        "risk",
        "dataset stream",
        "READ WRITE ADMIN",
        ("fraud desk", "needed for the weekly model review", "agreed with legal, 14 March"),
        "risk.watchlist",
    ),
    Team(
        "group:risk-analytics",
        "risk",
        "program",
        "EXECUTE ADMIN",
        ("scores must come back within minutes, day and night", "model owner runs the model", ""),
    ),
    Team(
        "group:risk-analytics",
        "risk",
        "application artifact dataset_module dataset_type securekey",
        "ADMIN",
        ("owner of the models", ""),
    ),
    Team(
        "user:kenji.tanaka",
        "sandbox",
        "namespace application artifact dataset_module dataset_type securekey",
        "ADMIN",
        ("I look after the sandbox", "cleans up every quarter"),
    ),
    Team("user:kenji.tanaka", "sandbox", "program", "EXECUTE ADMIN", ("my experiments", "")),
    Team("user:kenji.tanaka", "sandbox", "dataset stream", "READ WRITE ADMIN", ("cleans up every quarter",)),
    Team("group:data-science", "sandbox", "dataset stream", "READ WRITE ADMIN", ("play data", "")),
    Team(
        "group:data-science",
        "sandbox",
        "dataset_module dataset_type artifact",
        "ADMIN",
        ("to try out our own builds",),
    ),
    Team(
        "user:lars.eriksen", "sandbox", "program securekey", "EXECUTE ADMIN", ("stops what eats the cluster",)
    ),
    Team("user:anneke.devries", "sandbox", "namespace application", "ADMIN", ("stand-in for Kenji",)),
]

SINGLE_GRANTS = """
# the platform itself
user:anneke.devries | instance:cdap | READ WRITE ADMIN | head of the data platform
user:lars.eriksen | instance:cdap | READ ADMIN | stand-in for Anneke
user:tomasz.zielinski | instance:cdap | WRITE | creates namespaces on request
group:platform-operations | kerberosprincipal:etl/ingest01.example.com@CORP.EXAMPLE | ADMIN | nightly ingestion
group:platform-operations | kerberosprincipal:etl/ingest02.example.com@CORP.EXAMPLE | ADMIN | nightly ingestion, standby
group:platform-operations | kerberosprincipal:svc-orders/orders.example.com@CORP.EXAMPLE | ADMIN | keytab rotation
group:platform-operations | kerberosprincipal:svc-routing/fleet.example.com@CORP.EXAMPLE | ADMIN | keytab rotation
group:platform-operations | kerberosprincipal:svc-ledger/ledger.example.com@CORP.EXAMPLE | ADMIN | keytab rotation, together with finance
group:platform-operations | kerberosprincipal:svc-campaigns@CORP.EXAMPLE | ADMIN | keytab rotation
group:platform-operations | kerberosprincipal:svc-fraud/score.example.com@CORP.EXAMPLE | ADMIN | keytab rotation
group:platform-operations | kerberosprincipal:kenji.tanaka@CORP.EXAMPLE | ADMIN |
user:kenji.tanaka | kerberosprincipal:kenji.tanaka@CORP.EXAMPLE | EXECUTE ADMIN | it is me
user:maria.lopez | kerberosprincipal:svc-orders/orders.example.com@CORP.EXAMPLE | EXECUTE ADMIN | deploys order capture as this principal
group:logistics-engineering | kerberosprincipal:svc-routing/fleet.example.com@CORP.EXAMPLE | EXECUTE | queries of the dispatch desk
user:rajesh.iyer | kerberosprincipal:svc-ledger/ledger.example.com@CORP.EXAMPLE | ADMIN | four-eyes rule for the ledger keytab
user:amara.okafor | kerberosprincipal:svc-fraud/score.example.com@CORP.EXAMPLE | EXECUTE ADMIN | runs the scoring as this principal
user:tomasz.zielinski | kerberosprincipal:svc-wholesale@CORP.EXAMPLE | ADMIN | keytab rotation

# sales
user:maria.lopez | namespace:sales | READ WRITE ADMIN | leads sales engineering
user:tomasz.zielinski | namespace:sales | READ ADMIN | stand-in for Maria during her parental leave
user:maria.lopez | securekey:sales.webshop-api-token | READ ADMIN | the shop does not start without it
user:oluwaseun.adeyemi | securekey:sales.webshop-api-token | READ | debugging the checkout, only in the office hours
user:jonas.weber | securekey:sales.till-gateway-cert | READ ADMIN | installs the tills
user:maria.lopez | securekey:sales.customer-hash-salt | READ |
group:platform-operations | application:sales.customer_360 | ADMIN | personal data: kept away from the product teams on purpose
group:platform-operations | program:sales.customer_360.spark.match_customers | EXECUTE ADMIN | personal data, see DP-1150
group:platform-operations | program:sales.customer_360.workflow.nightly_match | EXECUTE ADMIN | personal data, see DP-1150
group:platform-operations | program:sales.customer_360.service.customer_lookup | EXECUTE ADMIN | personal data, see DP-1150
group:platform-operations | program:sales.customer_360.mapreduce.erasure_requests | EXECUTE ADMIN | erasure within 30 days, Article 17
group:platform-operations | dataset:sales.customers | ADMIN | personal data, see DP-1150. ADMIN without READ is intended
group:platform-operations | dataset:sales.customers.matched | ADMIN | personal data, see DP-1150
group:platform-operations | dataset:sales.gift.cards | ADMIN | since the gift card incident, sales may not change it
user:claire.dubois | dataset:sales.customers | READ | customer care escalations, reviewed every quarter
user:claire.dubois | program:sales.customer_360.service.customer_lookup | READ | shows her when the lookup is down
user:mei.chen | dataset:sales.orders | READ | weekly trading meeting
user:mei.chen | dataset:sales.orders.by.day | READ | weekly trading meeting
user:mei.chen | dataset:sales.returns | READ WRITE | corrects the reason codes by hand
user:mei.chen | program:sales.order_rollups.workflow.month_end | EXECUTE | starts it when the last store has closed its books
user:mei.chen | dataset:sales.gift.cards | READ |
group:platform-operations | program:sales.order_capture.flow.checkout_intake | EXECUTE | night shift
group:platform-operations | program:sales.order_capture.flow.till_intake | EXECUTE | night shift
group:platform-operations | program:sales.order_rollups.workflow.daily | EXECUTE | night shift
group:platform-operations | program:sales.stock_mirror.flow.stock_deltas | EXECUTE | night shift
group:store-operations | dataset:sales.stock.by.store | READ | stores look up stock of their neighbours
group:store-operations | dataset:sales.prices.current | READ | price queries at the till
group:store-operations | dataset:sales.promotions | READ | what goes on the posters
group:store-operations | stream:sales.returns-desk | WRITE | the returns desk posts here
group:marketing-analytics | dataset:sales.orders.by.day | READ | did the campaign sell anything?
group:marketing-analytics | dataset:sales.promotions | READ WRITE | marketing plans the promotions, sales publishes them
group:marketing-analytics | dataset:sales.baskets.affinity | READ | cross-selling in the newsletter
group:marketing-analytics | dataset:sales.customers.matched | READ | hashed, cleared by the data protection officer on 3 May
group:marketing-analytics | securekey:sales.customer-hash-salt | READ | without the salt our segments do not line up with sales
group:risk-analytics | dataset:sales.orders | READ | every order above 80 euros is scored
group:risk-analytics | dataset:sales.returns | READ | returns fraud
group:risk-analytics | stream:sales.web-checkouts | READ | device fingerprints come with the checkout
group:finance-stewards | dataset:sales.orders.by.day | READ | revenue recognition
group:finance-stewards | dataset:sales.returns | READ | provisions for returns
group:finance-stewards | dataset:sales.gift.cards | READ | liability for unredeemed gift cards
group:data-science | dataset:sales.orders | READ | forecasting and recommendations, DP-1402
group:data-science | dataset:sales.order$lines | READ | forecasting and recommendations, DP-1402
group:data-science | dataset:sales.baskets.affinity | READ WRITE | we write the model's output back
group:data-science | dataset:sales.customers.matched | READ | hashed, cleared by the data protection officer on 3 May
group:data-science | artifact:sales.cdap-data-pipeline-6.4.1 | READ | uses the bundle in notebooks
group:contractors | dataset:sales.prices.history | READ | price elasticity study, ends in September
user:bruno.silva | program:sales.price_engine.spark.promotion_impact | EXECUTE | same study, agreed with Maria
user:olga.ivanova | dataset:sales.promotions | READ | same study
user:viktor.hale | dataset:sales.orders.by.day | READ | accruals
user:viktor.hale | dataset:sales.gift.cards | READ WRITE | correction of the 2023 liability

# logistics
user:sofia.lindqvist | namespace:logistics | READ WRITE ADMIN | head of logistics systems; wants to move everything to logistics2 and drop this one
user:anneke.devries | namespace:logistics | ADMIN | stand-in, quarterly review
group:data-science | program:logistics.route_planner.spark.optimise_tours | EXECUTE ADMIN | the solver is ours, hands off before Christmas
group:data-science | program:logistics.route_planner.spark.travel_times | EXECUTE ADMIN | the travel time model is ours
group:data-science | program:logistics.demand_forecast.spark.train_demand | EXECUTE ADMIN | retrains and tunes the forecast
group:logistics-engineering | program:logistics.route_planner.spark.optimise_tours | EXECUTE | started by plan_tours
group:logistics-engineering | program:logistics.demand_forecast.spark.train_demand | READ | to see when it last ran
group:data-science | dataset:logistics.tours | READ | training data for travel times
group:data-science | dataset:logistics.stops.history | READ | training data for travel times
group:data-science | dataset:logistics.forecasts.demand | READ WRITE | output of the forecast
group:data-science | dataset:logistics.travel.times | READ WRITE | output of the model
group:data-science | stream:logistics.van-positions | READ |
group:store-operations | program:logistics.store_deliveries.service.delivery_board | EXECUTE | the screens at the back door restart the board themselves
user:aoife.brennan | dataset:logistics.carriers.invoices | READ WRITE | disputes with carriers
user:aoife.brennan | program:logistics.carrier_invoices.workflow.monthly_check | EXECUTE | runs the check before she phones them
user:aoife.brennan | dataset:logistics.deliveries.late | READ |
user:henrik.dahl | securekey:logistics.telematics-password | READ | he is the contact of the leasing company
user:marek.novak | securekey:logistics.carrier-edi-key | READ | EDI certificates, renewal in November
user:fatima.elamrani | securekey:logistics.maps-licence-key | READ |
group:finance-stewards | dataset:logistics.carriers.invoices | READ | freight cost accruals
group:finance-stewards | dataset:logistics.stock.movements | READ | inventory valuation
group:platform-operations | program:logistics.warehouse_sync.workflow.nightly_count | EXECUTE | night shift
group:platform-operations | program:logistics.route_planner.workflow.plan_tours | EXECUTE | must be out by 19:15, whoever is on duty
user:maria.lopez | dataset:logistics.deliveries | READ | "where is my order" shows the delivery window
user:maria.lopez | dataset:logistics.stock.warehouse | READ | available today

# finance
user:rajesh.iyer | namespace:finance | READ ADMIN | head of finance systems
user:hannah.goldberg | namespace:finance | ADMIN | stand-in for Rajesh
group:platform-operations | dataset:finance.payroll.hours | ADMIN | payroll may not administer its own data
group:platform-operations | dataset:finance.payroll.payments | ADMIN | payroll may not administer its own data
user:hannah.goldberg | dataset:finance.payroll.payments | READ WRITE | payroll, one of two
user:pieter.janssens | dataset:finance.payroll.payments | READ | payroll, the other of two
user:hannah.goldberg | dataset:finance.payroll.hours | READ WRITE | corrects missing shifts
user:ingrid.solberg | application:finance.vat_return | ADMIN | I wrote it and I still file the returns. Leaving at the end of June, handover open
user:ingrid.solberg | program:finance.vat_return.workflow.quarterly_return | EXECUTE ADMIN | filed by me every quarter until June
user:ingrid.solberg | program:finance.vat_return.spark.vat_checks | EXECUTE ADMIN | filed by me every quarter until June
user:ingrid.solberg | dataset:finance.vat.returns | READ WRITE ADMIN | filed by me every quarter until June
user:ingrid.solberg | securekey:finance.tax-portal-cert | READ ADMIN | the certificate is in my name, the tax office wants a new one for the successor
group:finance-stewards | dataset:finance.vat.returns | READ | cross-check with the ledger
user:viktor.hale | dataset:finance.budget.2025 | READ WRITE ADMIN | budget owner
user:viktor.hale | securekey:finance.ledger-db-password | READ ADMIN | migration of the ledger database
user:viktor.hale | dataset:finance.ledger.adjustments | WRITE | late adjustments, year-end 2023
user:viktor.hale | dataset:finance.cost.centres | READ WRITE ADMIN | cost centre clean-up
user:viktor.hale | program:finance.ledger_close.workflow.year_end | EXECUTE |
group:finance-stewards | dataset:finance.budget.2025 | READ | last year's figures for comparison
user:rajesh.iyer | dataset:finance.ledger | WRITE | posts corrections after the auditor's visit
user:pieter.janssens | dataset:finance.invoices.supplier | WRITE | accounts payable
user:pieter.janssens | dataset:finance.invoices.disputed | WRITE | accounts payable
user:pieter.janssens | securekey:finance.bank-signing-key | READ | signs the payment file with Hannah
user:hannah.goldberg | securekey:finance.bank-signing-key | READ | signs the payment file with Pieter
user:lucia.romano | dataset:finance.expense.claims | READ WRITE | travel expenses
user:lucia.romano | stream:finance.expense-claims | WRITE | uploads scanned receipts
group:internal-audit | dataset:finance.ledger | READ | audit plan 2026
group:internal-audit | dataset:finance.ledger.adjustments | READ | audit plan 2026
group:internal-audit | dataset:finance.ledger.trial.balance | READ | audit plan 2026
group:internal-audit | dataset:finance.invoices.matched | READ | sample of 200 invoices
group:internal-audit | dataset:finance.vat.returns | READ | audit plan 2026
group:internal-audit | dataset:risk.fraud.cases | READ | insurance claim of the Leipzig store
group:internal-audit | dataset:risk.shrinkage.by.store | READ | insurance claim of the Leipzig store
group:internal-audit | dataset:logistics.carriers.invoices | READ | audit plan 2026
user:noor.haddad | dataset:sales.orders.by.store | READ | revenue by store, external audit
user:mei.chen | dataset:finance.budget.2026 | READ | her own cost centre

# marketing
user:amelie.laurent | namespace:marketing | READ WRITE ADMIN | heads marketing analytics
user:katarzyna.wojcik | namespace:marketing | ADMIN | stand-in for Amélie
user:diego.morales | securekey:marketing.mail-provider-token | READ | sends the campaigns
user:thandiwe.nkosi | securekey:marketing.social-ads-token | READ | books the ads
group:data-science | dataset:marketing.segments | READ | starting point for churn
group:data-science | dataset:marketing.loyalty.points | READ | starting point for churn
group:data-science | program:marketing.segments.spark.cluster_customers | EXECUTE | monthly re-clustering
group:data-science | application:marketing.churn_radar | ADMIN | so that we can deploy it on day one
group:data-science | program:marketing.churn_radar.spark.train_churn | EXECUTE ADMIN | goes live with the autumn campaign
group:data-science | program:marketing.churn_radar.workflow.weekly_scores | EXECUTE ADMIN | goes live with the autumn campaign
group:data-science | program:marketing.churn_radar.service.score_api | EXECUTE ADMIN | goes live with the autumn campaign
group:data-science | dataset:marketing.churn.scores | READ WRITE ADMIN | goes live with the autumn campaign
group:marketing-analytics | program:marketing.churn_radar.workflow.weekly_scores | EXECUTE | may repeat a week
group:marketing-analytics | dataset:marketing.churn.scores | READ | who is about to leave us
user:claire.dubois | program:marketing.churn_radar.service.score_api | EXECUTE | customer care wants to see the score on the phone
user:claire.dubois | dataset:marketing.recipients.blocked | READ WRITE | enters objections that arrive by phone
user:yuki.sato | dataset:marketing.sessions.by.day | READ | visits per campaign
user:sara.bergman | dataset:marketing.newsletter.archive | READ WRITE ADMIN | newsletter until 2024
user:sara.bergman | program:marketing.campaigns.workflow.send_campaign | EXECUTE | newsletter until 2024
user:chiara.conti | dataset:marketing.vouchers | READ | vouchers that the till refuses

# risk
user:gareth.pryce | namespace:risk | READ WRITE ADMIN | everything in risk, as before the platform upgrade
user:elif.yilmaz | namespace:risk | ADMIN | leads the fraud desk
user:amara.okafor | dataset:risk.watchlist | READ WRITE ADMIN | on legal advice: one person, no group
user:elif.yilmaz | dataset:risk.watchlist | READ | fraud desk, look-up only
user:nikolai.petrov | securekey:risk.bureau-api-key | READ | monthly import from the credit bureau
user:amara.okafor | securekey:risk.fraud-desk-token | READ |
group:data-science | dataset:risk.fraud.scores | READ | shadow model 7.2.0
group:data-science | dataset:risk.fraud.labels | READ | shadow model 7.2.0
group:data-science | artifact:risk.fraud-models-7.2.0 | READ | shadow model 7.2.0
group:data-science | program:risk.fraud_scoring.spark.train_fraud | EXECUTE | shadow model 7.2.0
user:maria.lopez | program:risk.fraud_scoring.service.score_order | READ | order capture calls it; she wants to see whether it is up
user:rajesh.iyer | dataset:risk.chargebacks | READ | write-offs
user:emre.demir | dataset:risk.shrinkage.by.store | READ | region north
group:platform-operations | program:risk.fraud_scoring.service.score_order | EXECUTE | night shift

# sandbox
group:contractors | dataset:sandbox.orders.sample | READ | no real names in it
user:bruno.silva | application:sandbox.recommender_poc | READ | code review
user:yuki.sato | program:sandbox.weather_impact.spark.correlate | EXECUTE | it is raining again
user:elif.yilmaz | dataset:sandbox.orders.sample | READ |

# left over on what was deleted
group:sales-engineering | application:sales.click_collect_v1 | ADMIN | owner until order capture takes over
group:sales-engineering | program:sales.click_collect_v1.flow.reservations | EXECUTE ADMIN | owner until order capture takes over
group:store-operations | program:sales.click_collect_v1.service.pickup_board | EXECUTE | pick-up shelf in the stores
group:store-operations | dataset:sales.click.collect.slots | READ WRITE | pick-up shelf in the stores
user:jonas.weber | program:sales.click_collect_v1.worker.sms_sender | EXECUTE ADMIN |
group:contractors | dataset:finance.payroll.export | READ | one-off check of the export before the change of provider
user:bruno.silva | dataset:finance.payroll.export | READ WRITE | built the export for the change of payroll provider
user:viktor.hale | dataset:finance.budget.2019 | READ WRITE ADMIN | budget owner
user:aoife.brennan | dataset:logistics.bike.couriers.pilot | READ ADMIN | ran the pilot in Malmö
user:diego.morales | dataset:marketing.loyalty.cards.2019 | READ | comparison of the old and the new club
user:sara.bergman | dataset:marketing.loyalty.cards.2019 | READ WRITE ADMIN | the old loyalty club
user:nikolai.petrov | dataset:risk.fraud.cases.2019 | READ WRITE ADMIN | training data of the first model
user:mei.chen | namespace:wholesale | READ ADMIN | ran the wholesale business
user:mei.chen | dataset:wholesale.dealers | READ WRITE ADMIN | ran the wholesale business
user:jonas.weber | program:wholesale.dealer_portal.service.dealer_orders | EXECUTE ADMIN |
user:olga.ivanova | dataset:wholesale.dealer.discounts | READ | due diligence for the buyer
"""
