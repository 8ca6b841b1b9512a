package nacha

// reasons is what the codes of returns and of changes say, in short.
var reasons = map[string]string{
	"R01": "insufficient funds", "R02": "account closed", "R03": "no account, or it cannot be found", "R04": "account number is not valid",
	"R05": "debit of a consumer was not authorized", "R06": "returned at the request of the sending bank", "R07": "authorization was revoked",
	"R08": "payment was stopped", "R09": "funds are not collected", "R10": "customer says that it was not authorized",
	"R11": "customer says that it was not as authorized", "R12": "branch was sold to another bank", "R13": "routing number is not valid",
	"R14": "representative payee is deceased", "R15": "account holder is deceased", "R16": "account is frozen", "R17": "file record is not valid",
	"R18": "effective date is not valid", "R19": "amount is not valid", "R20": "account takes no such payments", "R21": "company number is not valid",
	"R22": "receiver's number is not valid", "R23": "receiver refused the credit", "R24": "duplicate entry", "R25": "addenda are not valid",
	"R26": "mandatory field is not valid", "R27": "trace number is not valid", "R28": "check digit of the routing number is wrong",
	"R29": "company says that it was not authorized", "R30": "bank takes no part in check truncation", "R31": "permissible return of a company's entry",
	"R32": "bank does not settle", "R33": "destroyed check was returned", "R34": "bank takes part with limits", "R35": "improper debit", "R36": "improper credit",
	"R37": "check itself was presented", "R38": "check was stopped", "R39": "check is not proper", "R40": "federal agency refused an enrollment",
	"R41": "transaction code is not valid", "R42": "routing number or check digit is wrong", "R43": "account number is not valid",
	"R44": "receiver's number is not valid", "R45": "receiver's name is not valid", "R46": "representative payee indicator is not valid",
	"R47": "duplicate enrollment", "R50": "state law on represented checks", "R51": "represented check is not eligible", "R52": "represented check was stopped",
	"R53": "check and its representment were both presented", "R61": "return was misrouted", "R62": "erroneous or reversing debit was returned",
	"R67": "duplicate return", "R68": "return was late", "R69": "return has wrong fields", "R70": "return was not permissible",
	"R71": "dishonored return was misrouted", "R72": "dishonored return was late", "R73": "original return was in time", "R74": "corrected return",
	"R75": "return was no duplicate", "R76": "no errors were found", "R77": "dishonored return is not accepted", "R80": "international entry is coded wrongly",
	"R81": "bank takes no part in international entries", "R82": "foreign bank's number is not valid", "R83": "foreign bank cannot settle",
	"R84": "entry was not processed by the gateway", "R85": "outbound international payment is coded wrongly",

	"C01": "account number", "C02": "routing number", "C03": "routing number and account number", "C04": "name", "C05": "transaction code",
	"C06": "account number and transaction code", "C07": "routing number, account number and transaction code", "C08": "foreign bank's number",
	"C09": "receiver's number", "C10": "company name", "C11": "company number", "C12": "company name and number", "C13": "addenda format",
	"C14": "code of an outbound international payment",
}

// Says is what a code says, in short; "" when nobody knows it.
func Says(code string) string { return reasons[code] }
