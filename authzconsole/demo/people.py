"""The users and groups of the demo tenant."""

USERS = """
kenji.tanaka anneke.devries lars.eriksen priya.raman tomasz.zielinski
maria.lopez oluwaseun.adeyemi claire.dubois jonas.weber mei.chen
sofia.lindqvist henrik.dahl fatima.elamrani marek.novak aoife.brennan
ingrid.solberg rajesh.iyer hannah.goldberg pieter.janssens lucia.romano
amelie.laurent katarzyna.wojcik diego.morales yuki.sato thandiwe.nkosi
amara.okafor gareth.pryce elif.yilmaz nikolai.petrov grace.kim
ravi.menon chiara.conti emre.demir
noor.haddad bruno.silva olga.ivanova
julia.schmidt ana.pereira
viktor.hale sara.bergman
""".split()

# former employees: their accounts were deactivated, but their grants were never revoked
INACTIVE = {"viktor.hale", "sara.bergman"}
WITHOUT_EMAIL = {"bruno.silva", "olga.ivanova"}

GROUPS = {
    "platform-operations": "anneke.devries lars.eriksen tomasz.zielinski",
    "sales-engineering": "maria.lopez oluwaseun.adeyemi claire.dubois jonas.weber",
    "logistics-engineering": "sofia.lindqvist henrik.dahl fatima.elamrani marek.novak",
    "finance-stewards": "ingrid.solberg rajesh.iyer hannah.goldberg pieter.janssens viktor.hale",
    "marketing-analytics": "amelie.laurent katarzyna.wojcik diego.morales thandiwe.nkosi grace.kim",
    "risk-analytics": "amara.okafor elif.yilmaz nikolai.petrov grace.kim",
    "data-science": "priya.raman yuki.sato grace.kim",
    "store-operations": "ravi.menon chiara.conti emre.demir",
    "contractors": "bruno.silva olga.ivanova",
    "internal-audit": "noor.haddad lucia.romano",
}
