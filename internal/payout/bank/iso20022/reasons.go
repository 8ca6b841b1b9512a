package iso20022

import (
	"maps"
	"slices"
)

// reasonTexts has short descriptions of the codes of rejections and returns (ISO 20022 external code sets for status
// and return reasons).
var reasonTexts = map[string]string{
	"AB05": "a bank on the way did not answer in time", "AB06": "a bank on the way did not answer in time",
	"AB08": "the creditor's bank is offline",
	"AC01": "account number is wrong", "AC02": "debtor's account number is wrong",
	"AC03": "creditor's account number is wrong", "AC04": "account is closed",
	"AC05": "debtor's account is closed", "AC06": "account is blocked", "AC07": "creditor's account is closed",
	"AC08": "branch is not valid",
	"AC09": "account's currency is not valid", "AC10": "debtor account's currency is not valid",
	"AC11": "creditor account's currency is not valid",
	"AC12": "account's type is not valid", "AC13": "debtor's account is of a wrong type",
	"AC14": "creditor's account is of a wrong type",
	"AC15": "account number has changed", "AC16": "account is sequestrated", "AC17": "account is in liquidation",
	"AG01": "the account takes no such payments", "AG02": "operation code is not valid",
	"AG03": "transaction is not supported", "AG07": "direct debit failed",
	"AM01": "amount is zero", "AM02": "amount is above what is allowed", "AM03": "currency is not allowed",
	"AM04": "funds are insufficient",
	"AM05": "duplicate", "AM06": "amount is too small", "AM07": "amount is blocked", "AM08": "charges are not agreed",
	"AM09": "amount is wrong",
	"AM10": "control sum is wrong", "AM11": "currency is not valid", "AM12": "amount is not valid",
	"AM13": "amount is above the clearing system's limit",
	"AM14": "amount is above the agreed limit", "AM16": "group's control sum is wrong",
	"AM23": "amount is above the settlement limit",
	"ARDT": "already returned", "BE01": "name and account do not match", "BE04": "creditor's address is missing",
	"BE05": "initiating party is unknown",
	"BE06": "customer is unknown", "BE07": "debtor's address is missing", "BE08": "bank error",
	"BE10": "debtor's country is missing", "BE11": "creditor's country is missing",
	"BE16": "debtor's identification is not valid", "BE17": "creditor's identification is not valid",
	"BE22": "creditor's name is missing",
	"CNOR": "creditor's bank is not registered", "CURR": "currency is wrong", "CUST": "requested by the customer",
	"DNOR": "debtor's bank is not registered",
	"DS04": "order was rejected", "DS28": "technical problem", "DT01": "date is not valid",
	"DT04": "future date is not supported", "DU01": "duplicate message",
	"DU02": "duplicate group", "DU03": "duplicate payment", "DU04": "duplicate end-to-end ID",
	"DU05": "duplicate instruction",
	"ED01": "correspondent bank is not possible", "ED03": "balance was asked for", "ED05": "settlement failed",
	"EMVL": "liability shift", "ERIN": "option is not supported",
	"FF01": "file format is not valid", "FOCR": "after a request to cancel", "FR01": "fraud", "FRAD": "fraud",
	"FRTR": "final response", "G004": "credit is pending without end",
	"MD01": "there is no mandate", "MD02": "mandate lacks information", "MD03": "file format is not valid",
	"MD04": "group's format is not valid",
	"MD05": "collection is not due", "MD06": "refund was asked for", "MD07": "customer is deceased",
	"MS02": "refused by the customer, no reason given",
	"MS03": "refused by the bank, no reason given", "NARR": "see the bank's text", "NOAS": "no answer from the customer",
	"NOCM": "customer account is not compliant",
	"NOOR": "original payment is not known", "PINL": "limit exceeded", "RC01": "bank's identification is wrong",
	"RC03": "debtor's bank is not valid",
	"RC04": "creditor's bank is not valid", "RC07": "creditor's bank cannot be reached",
	"RC08": "clearing member is not valid", "RC11": "intermediary bank is not valid",
	"RF01": "reference is not unique", "RR01": "debtor's account is missing for the regulator",
	"RR02": "debtor's name or address is missing for the regulator",
	"RR03": "creditor's name or address is missing for the regulator", "RR04": "regulator",
	"RR05": "regulatory information is not valid", "RR06": "tax information is missing",
	"RR07": "remittance information is not valid", "RR08": "remittance information is truncated",
	"RR09": "structured reference is not valid", "RR10": "character is not valid",
	"RR11": "service of the debtor's bank is not valid", "RR12": "party's identification is not valid",
	"RUTA": "returned after investigation",
	"SL01": "bank's own service", "SL02": "creditor bank's own service", "SP01": "payment was stopped",
	"SP02": "earlier stop", "SVNR": "service was not rendered",
	"TM01": "after the cut-off", "TRAC": "removed from tracking", "UPAY": "payment was not due",
}

// ReasonText returns a short description of a reason code, or "" if it is unknown.
func ReasonText(code string) string { return reasonTexts[code] }

// Reasons returns all known reason codes, sorted.
func Reasons() []string { return slices.Sorted(maps.Keys(reasonTexts)) }
