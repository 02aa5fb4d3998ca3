"""The events of the two years, as tables. A day is the number of days before the start.

What is not listed here existed when the journal began, or was granted on a day that `steps.py` computes.
"""

FIRST_DAY = 730
# (day, generation, reason)
GENERATIONS = (
    (505, "proposed", "DP-1170: deletion no longer removes grants, and keys are split from data"),
    (215, "final", "DP-1395: agreed with audit; comparison of all permissions attached to the ticket"),
)
AUTHORS = ("anneke.devries", "lars.eriksen", "tomasz.zielinski")

# by name: (day of arrival, reason)
JOINERS = {
    "claire.dubois": (624, "moves from the stores to customer care"),
    "bruno.silva": (542, "contract for the change of payroll provider"),
    "yuki.sato": (505, "second data scientist"),
    "noor.haddad": (424, "external audit"),
    "emre.demir": (390, "store operations, region north"),
    "elif.yilmaz": (350, "new lead of the fraud desk"),
    "olga.ivanova": (282, "contract: due diligence, then pricing"),
    "marek.novak": (231, "new colleague in logistics"),
    "julia.schmidt": (40, "starts next month"),
    "ana.pereira": (19, "starts next month"),
}
# by name: (day, reason)
LEAVERS = {
    "sara.bergman": (511, "left the company"),
    "viktor.hale": (96, "left the company; handover not finished"),
}

# groups that did not exist when the journal began, by name: (day, reason)
NEW_GROUPS = {
    "contractors": (541, "everyone with an external contract"),
    "internal-audit": (423, "audit plan 2025"),
}
# (new name, old name, day, reason): a new group with the members and grants of the old one, which is then
# removed
RENAMED_TEAM = (
    "risk-analytics",
    "fraud-desk",
    345,
    "DP-1296: the fraud desk and the credit team are one team now",
)
# present members that joined later: (user, group): (day, reason)
LATE_MEMBERS = {
    ("claire.dubois", "sales-engineering"): (620, "answers escalations together with sales engineering"),
    ("yuki.sato", "data-science"): (500, "second data scientist"),
    ("grace.kim", "data-science"): (640, "half a week with data science"),
    ("grace.kim", "marketing-analytics"): (310, "churn project"),
    ("grace.kim", "risk-analytics"): (131, "shadow model 7.2.0"),
    ("thandiwe.nkosi", "marketing-analytics"): (470, "moves from the stores to marketing"),
    ("lucia.romano", "internal-audit"): (421, "moves from finance to internal audit"),
    ("noor.haddad", "internal-audit"): (421, "external audit"),
    ("bruno.silva", "contractors"): (540, "external contract"),
    ("olga.ivanova", "contractors"): (280, "external contract"),
    ("elif.yilmaz", "risk-analytics"): (344, "leads the fraud desk"),
    ("emre.demir", "store-operations"): (388, "region north"),
    ("marek.novak", "logistics-engineering"): (228, "new colleague in logistics"),
}
# former members: (user, group, first day, last day, reason of the end)
FORMER_MEMBERS = (
    ("thandiwe.nkosi", "store-operations", FIRST_DAY, 470, "moved to marketing"),
    (
        "lucia.romano",
        "finance-stewards",
        FIRST_DAY,
        421,
        "moved to internal audit, which may not own what it audits",
    ),
    ("kenji.tanaka", "platform-operations", FIRST_DAY, 395, "looks after the sandbox now"),
    ("sara.bergman", "marketing-analytics", FIRST_DAY, 512, "leaves at the end of the month"),
    ("gareth.pryce", "fraud-desk", FIRST_DAY, 352, "moved to the credit team"),
    ("diego.morales", "sales-engineering", 590, 533, "end of the shop relaunch"),
    ("henrik.dahl", "data-science", 455, 410, "end of the routing project"),
)

# live entities that were registered later: a prefix of their addresses after the kind, and the day
NEW_ENTITIES = (
    ("logistics.bike.couriers.pilot", 700),
    ("sandbox.kafka_bridge", 655),
    ("risk.store_shrinkage", 600),
    ("risk.shrinkage.by.store", 600),
    ("sales.price_engine", 560),
    ("sales.price-rules", 560),
    ("marketing.web_analytics", 520),
    ("marketing.sessions.by.day", 520),
    ("marketing.funnel", 519),
    ("sales.order-pipelines-2.4.1", 440),
    ("finance.budget.2026", 400),
    ("logistics.carrier_invoices", 330),
    ("risk.fraud-models-7.1.0", 262),
    ("finance.vat-rules-2026.1", 240),
    ("sandbox.weather", 180),
    ("risk.fraud-models-7.2.0", 140),
    ("sandbox.scratch.priya", 90),
    ("sales.order-pipelines-2.5.0-rc1", 61),
)
# deleted entities that were live when the journal began: (address, day, reason)
DELETED_ENTITIES = (
    ("dataset:finance.payroll.export", 490, "the new payroll provider has its own interface"),
    ("dataset:finance.budget.2019", 468, "older than the retention period"),
    ("dataset:marketing.loyalty.cards.2019", 455, "older than the retention period"),
    ("dataset:risk.fraud.cases.2019", 380, "older than the retention period"),
    ("dataset:logistics.bike.couriers.pilot", 301, "the pilot ended after the winter"),
    ("kerberosprincipal:svc-wholesale@CORP.EXAMPLE", 205, "retired with the wholesale business"),
)
# (address, day of the deletion, day of the recreation, reasons)
RECREATED_ENTITIES = (
    (
        "dataset:logistics.forecasts.demand.archive",
        610,
        608,
        "not read for a year",
        "the yearly report still reads it",
    ),
    ("stream:risk.device-fingerprints", 150, 147, "replaced by order-signals", "the scoring still needs it"),
)
# former descriptions: (address, description until then, day)
DESCRIBED_ENTITIES = (
    ("dataset:sales.customers", "Names, addresses, consents", 298),
    ("dataset:risk.watchlist", "Persons and addresses we do not deliver to", 346),
    ("namespace:sandbox", "Try things out here", 250),
)

# days of present grants that a reason or a principal and an address determine: (principal, start of the
# address, day). The first row that fits counts; empty texts fit everything.
GRANT_DAYS = (
    ("user:claire.dubois", "dataset:sales.customers", 340),
    ("user:claire.dubois", "dataset:marketing.recipients", 585),
    ("user:claire.dubois", "program:marketing.churn_radar", 45),
    ("user:claire.dubois", "program:sales.customer_360", 338),
    ("user:sofia.lindqvist", "namespace:logistics", 270),
    ("user:elif.yilmaz", "namespace:risk", 301),
    ("user:tomasz.zielinski", "namespace:sales", 60),
    ("user:chiara.conti", "dataset:marketing.vouchers", 33),
    ("user:emre.demir", "dataset:risk.shrinkage", 28),
    ("user:lucia.romano", "", 418),
    ("user:mei.chen", "dataset:finance.budget.2026", 199),
    ("user:ingrid.solberg", "application:", 55),
    ("user:ingrid.solberg", "", 420),
    ("user:yuki.sato", "", 265),
    ("user:elif.yilmaz", "", 188),
    ("user:noor.haddad", "", 414),
    ("user:bruno.silva", "dataset:finance.payroll.export", 520),
    ("group:contractors", "dataset:finance.payroll.export", 515),
    ("user:bruno.silva", "program:sales", 190),
    ("user:olga.ivanova", "dataset:sales", 190),
    ("user:olga.ivanova", "", 279),
    ("group:contractors", "", 189),
    ("user:viktor.hale", "", FIRST_DAY),
    ("user:sara.bergman", "", FIRST_DAY),
    ("group:marketing-analytics", "program:marketing.churn_radar", 45),
    ("group:marketing-analytics", "dataset:marketing.churn", 45),
    ("group:data-science", "application:marketing.churn_radar", 121),
    ("group:data-science", "program:marketing.churn_radar", 121),
    ("group:data-science", "dataset:marketing.churn", 120),
    ("group:data-science", "dataset:risk", 138),
    ("group:data-science", "artifact:risk", 138),
    ("group:data-science", "program:risk", 138),
    ("group:data-science", "dataset:sales.or", 210),
    ("group:data-science", "dataset:logistics", 445),
    ("group:internal-audit", "dataset:risk", 75),
    ("group:internal-audit", "dataset:logistics", 152),
    ("group:internal-audit", "", 153),
    ("user:kenji.tanaka", "", 394),
    # removed by a deletion in the generation `existing`, and granted again after the recreation
    ("", "dataset:logistics.forecasts.demand.archive", 607),
    ("group:platform-operations", "dataset:finance.payroll", 470),
    ("group:sales-engineering", "application:sales.click", FIRST_DAY),
)

# grants of the past: principal | address | privileges | reason | first day | last day | reason of the end
FORMER_GRANTS = """
user:mei.chen | dataset:sales.customers | READ | dealer mailing | 730 | 552 | the wholesale business is gone
group:contractors | dataset:sales.customers | READ | test data for the new payroll and loyalty interfaces | 538 | 476 | project finished
user:lucia.romano | dataset:sales.customers | READ | sample of consents, audit plan 2025 | 402 | 343 | audit finished
user:grace.kim | dataset:sales.customers | READ | consents of the churn sample | 118 | 104 | sample drawn
user:henrik.dahl | namespace:logistics | READ WRITE ADMIN | acting head of logistics systems | 730 | 268 | Sofia is head now
user:henrik.dahl | program:logistics.route_planner.spark.optimise_tours | EXECUTE ADMIN | acting head of logistics systems | 448 | 268 | the solver belongs to data science
user:henrik.dahl | program:logistics.demand_forecast.spark.train_demand | ADMIN | acting head of logistics systems | 448 | 268 | the forecast belongs to data science
user:rajesh.iyer | application:finance.vat_return | ADMIN | stand-in for the VAT return | 730 | 54 | one owner per application, see DP-1440
user:rajesh.iyer | program:finance.vat_return.workflow.quarterly_return | EXECUTE ADMIN | stand-in for the VAT return | 730 | 54 | one owner per application, see DP-1440
user:rajesh.iyer | program:finance.vat_return.spark.vat_checks | EXECUTE ADMIN | stand-in for the VAT return | 730 | 54 | one owner per application, see DP-1440
user:rajesh.iyer | dataset:finance.vat.returns | READ WRITE ADMIN | stand-in for the VAT return | 730 | 54 | one owner per application, see DP-1440
user:rajesh.iyer | securekey:finance.tax-portal-cert | READ ADMIN | stand-in for the VAT return | 730 | 54 | one owner per application, see DP-1440
group:fraud-desk | dataset:risk.watchlist | READ WRITE ADMIN | fraud desk | 730 | 347 | on legal advice: one person, no group
user:gareth.pryce | dataset:risk.credit.limits | READ WRITE | credit team | 500 | 351 | comes with namespace:risk anyway
user:kenji.tanaka | namespace:sandbox | WRITE | creates what he needs | 600 | 394 | ADMIN is enough
user:jonas.weber | securekey:sales.webshop-api-token | READ | till integration test | 660 | 641 | test finished
user:oluwaseun.adeyemi | dataset:sales.gift.cards | READ WRITE | gift card incident, call of 14:10 | 316 | 313 | incident closed
user:maria.lopez | dataset:sales.gift.cards | READ WRITE ADMIN | gift card incident, call of 14:10 | 316 | 299 | incident closed, see DP-1150
user:fatima.elamrani | securekey:logistics.telematics-password | READ | stand-in for Henrik, summer | 505 | 481 | Henrik is back
user:fatima.elamrani | securekey:logistics.telematics-password | READ | stand-in for Henrik, summer | 140 | 116 | Henrik is back
user:hannah.goldberg | dataset:finance.ledger | WRITE | year-end, corrections | 690 | 660 | year closed
user:hannah.goldberg | dataset:finance.ledger | WRITE | year-end, corrections | 325 | 297 | year closed
user:pieter.janssens | dataset:finance.ledger.adjustments | WRITE | year-end, corrections | 325 | 297 | year closed
user:priya.raman | dataset:finance.expense.claims | READ | duplicate receipts, one-off analysis | 372 | 358 | analysis delivered
user:priya.raman | stream:risk.order-signals | READ | features for model 7.1.0 | 290 | 255 | model released
user:yuki.sato | dataset:risk.fraud.cases | READ | labels for model 7.1.0 | 290 | 255 | model released
user:aoife.brennan | dataset:logistics.pallets | READ WRITE | claim against the pallet pool | 233 | 171 | claim settled
user:ravi.menon | dataset:logistics.deliveries.late | READ | complaints of three stores | 177 | 150 | complaints answered
user:diego.morales | dataset:sales.orders | READ | shop relaunch | 590 | 533 | end of the shop relaunch
user:katarzyna.wojcik | dataset:marketing.recipients.blocked | WRITE ADMIN | clean-up of old objections | 208 | 201 | clean-up done
group:store-operations | dataset:marketing.vouchers | READ | voucher weeks | 360 | 332 | end of the voucher weeks
group:store-operations | dataset:marketing.vouchers | READ | voucher weeks | 84 | 56 | end of the voucher weeks
user:bruno.silva | dataset:finance.payroll.hours | READ WRITE | trial run with the new payroll provider | 518 | 492 | the provider is live
group:contractors | namespace:sandbox | READ | orientation | 537 | 244 | DP-1377: no namespace-wide READ for externals
user:lars.eriksen | namespace:finance | READ | restore test | 259 | 258 | restore test done
user:lars.eriksen | namespace:risk | READ | restore test | 258 | 257 | restore test done
user:tomasz.zielinski | namespace:sandbox | ADMIN | quota clean-up | 128 | 121 | clean-up done
user:emre.demir | dataset:sales.stock.by.store | WRITE | stock corrections before the stocktake | 70 | 58 | stocktake done
user:sofia.lindqvist | program:logistics.route_planner.spark.travel_times | EXECUTE ADMIN | Christmas planning | 338 | 305 | hands off before Christmas was agreed
"""

# a quarterly round of internal audit: a group reads some data sets of one namespace for two weeks
AUDIT_ROUNDS = (
    ("sales", 404),
    ("logistics", 316),
    ("marketing", 225),
    ("risk", 134),
    ("sandbox", 44),
)
AUDIT_DAYS, AUDIT_DATASETS = 14, 5

# DP-1150 moves the customer data from sales engineering to operations: a plan
CUSTOMER_DATA_DAY = 300
CUSTOMER_DATA_REASON = "personal data, see DP-1150"
CUSTOMER_DATA_TITLE = "Customer data from sales engineering to platform operations"
CUSTOMER_DATA_FORMER_OWNER = "group:sales-engineering"
CUSTOMER_DATA_FORMER_REASON = "our own data, see the ownership list of January"
# a plan that was created and discarded: (day, title)
DISCARDED_PLAN = (
    240,
    "Give Sofia the solver programs",
    "the solver belongs to data science, see their objection",
)
# an application that was planned and never built: (address, principal, day, day of the removal, reasons)
ABANDONED = (
    "application:sandbox.lake_monitor",
    "user:kenji.tanaka",
    505 - 90,
    322,
    "prototype of a monitor",
    "not needed: the platform brings one",
)
