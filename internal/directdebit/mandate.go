package directdebit

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/mail"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/payout/bank"
	"github.com/stipend/stipend/internal/webhook"
)

// MandateState is the state of a mandate.
type MandateState string

// States of a mandate.
const (
	MandatePending   MandateState = "pending"   // staff check that the account belongs to the company
	MandateActive    MandateState = "active"    // the account can be debited
	MandateSuspended MandateState = "suspended" // a debit was returned; staff or a retry can lift the suspension
	MandateRevoked   MandateState = "revoked"   // the company revoked it
	MandateEnded     MandateState = "ended"     // the mandate was refused, unused for 36 months, or can no longer be used
)

// MandateStates lists all states.
var MandateStates = []MandateState{MandatePending, MandateActive, MandateSuspended, MandateRevoked, MandateEnded}

// Reasons of the states of a mandate, in addition to the reason codes of banks.
const (
	ReasonOwnership = "ownership_check" // pending: staff check the owner of the account
	ReasonUnused    = "unused"          // ended: the mandate was not used for 36 months
	ReasonFinal     = "final_debit"     // ended: the last debit was collected
	ReasonRefused   = "refused"         // ended: the account does not belong to the company
	ReasonMember    = "revoked"
)

const (
	maxMandates = 10
	// unusedLife is the time after which an unused SEPA mandate ends, in months.
	unusedLife = 36
)

// Mandate is a company's permission to debit one of its bank accounts.
type Mandate struct {
	CompanyID, ID string
	Scheme        bank.DebitScheme
	Reference     string                  // unique mandate reference
	Creditor      string                  // name of the creditor
	CreditorID    string                  // SEPA creditor identifier, or ""
	Account       destination.Destination // the account, masked and sealed
	State         MandateState
	Reason        string
	AcceptedBy    string // user ID of the member who accepted the mandate
	AcceptedAt    time.Time
	LastUsedAt    time.Time // time of the last debit, or zero
	Version       int64

	text, language, sealedFrom string
}

// Proof is the proof that a mandate was accepted.
type Proof struct {
	Text     string // text as shown to the member
	Language string
	Address  string // network address of the member
	Browser  string
}

// Hint returns a description of the account for people who know it.
func (m Mandate) Hint() string {
	return strings.TrimSpace(string(m.Account.Symbol) + " " + m.Account.Hint())
}

// Text returns the text of a new mandate, which a member accepts, in a language. If there is no text in the language,
// it returns the English text.
func (s *Service) Text(scheme bank.DebitScheme, language string) (string, error) {
	a, err := s.account(scheme)
	if err != nil {
		return "", err
	}
	text, ok := mandateTexts[language]
	if !ok {
		text = mandateTexts["en"]
	}
	notice := a.Debits.Schemes[scheme].Notice
	switch scheme {
	case bank.SEPACore:
		return fmt.Sprintf(text.sepa, a.Name, a.Debits.CreditorID) + " " + text.core + " " +
			fmt.Sprintf(text.notice, notice), nil
	case bank.SEPAB2B:
		return fmt.Sprintf(text.sepa, a.Name, a.Debits.CreditorID) + " " + text.b2b + " " +
			fmt.Sprintf(text.notice, notice), nil
	}
	return fmt.Sprintf(text.ach, a.Name) + " " + fmt.Sprintf(text.notice, notice), nil
}

// mandateTexts are the parts of the texts by language. The texts for SEPA come from the scheme rulebooks.
var mandateTexts = map[string]struct{ sepa, core, b2b, ach, notice string }{
	"en": {
		"By accepting this mandate form, you authorize (A) %[1]s, creditor identifier %[2]s, to send instructions to your " +
			"bank to debit your account and (B) your bank to debit your account in accordance with the instructions from %[1]s.",
		"As part of your rights, you are entitled to a refund from your bank under the terms and conditions of your " +
			"agreement with your bank. A refund must be claimed within 8 weeks starting from the date on which your account " +
			"was debited.",
		"This mandate is only intended for business-to-business transactions. You are not entitled to a refund from your " +
			"bank after your account has been debited, but you are entitled to request your bank not to debit your account up " +
			"until the day on which the payment is due. Register this mandate with your bank before the first debit.",
		"You authorize %s to debit your account electronically by ACH for the amounts that your company requests, and to " +
			"correct errors by credit or debit entries, under the Nacha Operating Rules. You confirm that you may authorize " +
			"debits of this account. The authorization is valid until you revoke it on this page; a revocation takes effect " +
			"for debits that were not yet sent to the bank.",
		"Each debit is announced by email %d days before it is due.",
	},
	"es": {
		"Al aceptar esta orden de domiciliación, usted autoriza a (A) %[1]s, identificador del acreedor %[2]s, a enviar " +
			"instrucciones a su entidad para adeudar su cuenta y (B) a su entidad para efectuar los adeudos en su cuenta " +
			"siguiendo las instrucciones de %[1]s.",
		"Como parte de sus derechos, usted está legitimado al reembolso por su entidad en los términos y condiciones del " +
			"contrato suscrito con ella. La solicitud de reembolso deberá efectuarse dentro de las 8 semanas que siguen a la " +
			"fecha de adeudo en cuenta.",
		"Esta orden de domiciliación está prevista para operaciones exclusivamente entre empresas. Usted no tiene derecho " +
			"a que su entidad le reembolse una vez realizado el cargo, pero puede solicitar a su entidad que no efectúe el " +
			"adeudo hasta la fecha debida. Registre la orden en su entidad antes del primer adeudo.",
		"Usted autoriza a %s a adeudar su cuenta electrónicamente por ACH por las cantidades que su empresa solicite, y a " +
			"corregir errores mediante abonos o cargos, conforme a las reglas de Nacha. Confirma que puede autorizar adeudos " +
			"en esta cuenta. La autorización es válida hasta que la revoque en esta página; la revocación surte efecto para " +
			"los adeudos que aún no se hayan enviado al banco.",
		"Cada adeudo se anuncia por correo electrónico %d días antes de su vencimiento.",
	},
	"pt": {
		"Ao aceitar esta autorização, você autoriza (A) %[1]s, identificador de credor %[2]s, a enviar instruções ao seu " +
			"banco para debitar a sua conta e (B) o seu banco a debitar a sua conta de acordo com as instruções de %[1]s.",
		"Você tem direito ao reembolso pelo seu banco, conforme os termos do contrato com ele. O reembolso deve ser " +
			"solicitado em até 8 semanas a partir da data do débito na conta.",
		"Esta autorização destina-se apenas a operações entre empresas. Você não tem direito ao reembolso pelo seu banco " +
			"depois do débito, mas pode pedir ao banco, até a data de vencimento, que não debite a conta. Registre a " +
			"autorização no seu banco antes do primeiro débito.",
		"Você autoriza %s a debitar a sua conta eletronicamente por ACH nos valores que a sua empresa solicitar, e a " +
			"corrigir erros por créditos ou débitos, conforme as regras da Nacha. Você confirma que pode autorizar débitos " +
			"nesta conta. A autorização vale até ser revogada nesta página; a revogação vale para débitos ainda não enviados " +
			"ao banco.",
		"Cada débito é anunciado por e-mail %d dias antes do vencimento.",
	},
	"fr": {
		"En acceptant ce mandat, vous autorisez (A) %[1]s, identifiant créancier %[2]s, à envoyer des instructions à votre " +
			"banque pour débiter votre compte, et (B) votre banque à débiter votre compte conformément aux instructions de " +
			"%[1]s.",
		"Vous bénéficiez du droit d’être remboursé par votre banque selon les conditions décrites dans la convention que " +
			"vous avez passée avec elle. Une demande de remboursement doit être présentée dans les 8 semaines suivant la date " +
			"de débit de votre compte.",
		"Ce mandat est dédié aux prélèvements SEPA interentreprises. Vous n’êtes pas en droit de demander à votre banque " +
			"le remboursement après que le montant a été prélevé. Vous pouvez cependant demander à votre banque de ne pas " +
			"débiter votre compte jusqu’au jour de l’échéance. Enregistrez ce mandat auprès de votre banque avant le premier " +
			"prélèvement.",
		"Vous autorisez %s à débiter votre compte électroniquement par ACH des montants que votre entreprise demande, et à " +
			"corriger les erreurs par des crédits ou des débits, selon les règles de Nacha. Vous confirmez pouvoir autoriser " +
			"des prélèvements sur ce compte. L’autorisation est valable jusqu’à sa révocation sur cette page ; la révocation " +
			"vaut pour les prélèvements qui n’ont pas encore été envoyés à la banque.",
		"Chaque prélèvement est annoncé par e-mail %d jours avant son échéance.",
	},
	"de": {
		"Mit diesem Mandat ermächtigen Sie (A) %[1]s, Gläubiger-Identifikationsnummer %[2]s, Zahlungen von Ihrem Konto " +
			"mittels Lastschrift einzuziehen. Zugleich (B) weisen Sie Ihr Kreditinstitut an, die von %[1]s auf Ihr Konto " +
			"gezogenen Lastschriften einzulösen.",
		"Sie können innerhalb von acht Wochen, beginnend mit dem Belastungsdatum, die Erstattung des belasteten Betrages " +
			"verlangen. Es gelten dabei die mit Ihrem Kreditinstitut vereinbarten Bedingungen.",
		"Dieses Mandat dient nur dem Einzug von Lastschriften, die auf Konten von Unternehmen gezogen sind. Sie sind nicht " +
			"berechtigt, nach der erfolgten Einlösung eine Erstattung des belasteten Betrages zu verlangen. Sie sind " +
			"berechtigt, Ihr Kreditinstitut bis zum Fälligkeitstag anzuweisen, Lastschriften nicht einzulösen. Bestätigen " +
			"Sie das Mandat Ihrem Kreditinstitut vor der ersten Lastschrift.",
		"Sie ermächtigen %s, Ihr Konto elektronisch über ACH mit den Beträgen zu belasten, die Ihr Unternehmen verlangt, " +
			"und Fehler durch Gutschriften oder Belastungen zu berichtigen, nach den Regeln von Nacha. Sie bestätigen, dass " +
			"Sie Belastungen dieses Kontos genehmigen dürfen. Die Ermächtigung gilt, bis Sie sie auf dieser Seite " +
			"widerrufen; ein Widerruf gilt für Lastschriften, die noch nicht an die Bank gesendet wurden.",
		"Jede Lastschrift wird %d Tage vor ihrer Fälligkeit per E-Mail angekündigt.",
	},
	"he": {
		"באישור הרשאה זו אתם מסמיכים (א) את %[1]s, מזהה נושה %[2]s, לשלוח לבנק שלכם הוראות לחיוב חשבונכם, " +
			"ו-(ב) את הבנק שלכם לחייב את חשבונכם לפי ההוראות של %[1]s.",
		"אתם זכאים להחזר מהבנק שלכם לפי תנאי ההסכם עמו. יש לדרוש את ההחזר בתוך 8 שבועות ממועד חיוב החשבון.",
		"הרשאה זו מיועדת לעסקאות בין עסקים בלבד. אינכם זכאים להחזר מהבנק אחרי שחשבונכם חויב, אך אתם רשאים להורות " +
			"לבנק שלא לחייב את החשבון עד למועד הפירעון. רשמו את ההרשאה בבנק שלכם לפני החיוב הראשון.",
		"אתם מסמיכים את %s לחייב את חשבונכם באופן אלקטרוני ב-ACH בסכומים שהחברה שלכם מבקשת, ולתקן טעויות בזיכוי או " +
			"בחיוב, לפי כללי Nacha. אתם מאשרים שאתם רשאים להתיר חיובים בחשבון זה. ההרשאה תקפה עד שתבטלו אותה בדף זה; " +
			"הביטול חל על חיובים שטרם נשלחו לבנק.",
		"על כל חיוב תישלח הודעה בדוא״ל %d ימים לפני מועדו.",
	},
}

// MandateParams describes a new mandate.
type MandateParams struct {
	Scheme           string
	Data             []byte // fields of the account, as for a destination
	Language         string // language of the text that was shown
	Accepted         bool
	Address, Browser string // network address and browser of the member who accepted
}

// AddMandate stores a mandate that a signed-in owner or administrator accepted. The caller must check that the member
// has just used a second factor. All owners and administrators get a mail.
func (s *Service) AddMandate(ctx context.Context, tx *db.Tx, by identity.Principal, p MandateParams) (Mandate, error) {
	company, err := s.activeCompany(ctx, tx, by, "")
	if err != nil {
		return Mandate{}, err
	}
	// This locks the company, so that concurrent additions wait for each other.
	if _, err := identity.NextCompanyVersion(ctx, tx, company.ID); err != nil {
		return Mandate{}, err
	}
	scheme := bank.DebitScheme(p.Scheme)
	a, err := s.account(scheme)
	switch {
	case err != nil:
		return Mandate{}, ErrNotOffered.At("body", "/scheme")
	case by.Kind != identity.KindSession || !p.Accepted:
		return Mandate{}, errAccept.At("body", "/accepted")
	}
	have, err := mandates(ctx, tx, company.ID)
	if err != nil {
		return Mandate{}, err
	}
	open := slices.DeleteFunc(have, func(m Mandate) bool { return m.State == MandateRevoked || m.State == MandateEnded })
	if len(open) >= maxMandates {
		return Mandate{}, errTooMany
	}
	to, err := s.c.Setup.Own(ctx, tx, company.ID, company.Country, string(scheme.Asset()), p.Data)
	if err != nil {
		return Mandate{}, err
	}
	id := tx.NewID("mdt")
	m := Mandate{
		CompanyID: company.ID, ID: id, Scheme: scheme, Reference: strings.ToUpper(strings.ReplaceAll(id, "_", "-")),
		Creditor: a.Name, CreditorID: a.Debits.CreditorID, Account: to, State: MandateActive, AcceptedBy: by.UserID,
		AcceptedAt: tx.Now(), Version: 1, language: p.Language,
	}
	if m.text, err = s.Text(scheme, p.Language); err != nil {
		return Mandate{}, err
	}
	// A debit is encoded now, so that an account that no file can contain is refused here.
	largest := Debit{CompanyID: company.ID, Mandate: m, Amount: a.MaxDebit()}
	order, err := s.order(ctx, tx, largest, tx.Now().AddDate(0, 0, 14))
	if err == nil && order.International() {
		return Mandate{}, errAbroad.At("body", "/scheme")
	}
	if err == nil && order.LacksAddress() {
		return Mandate{}, errAddress.At("body", "/iban")
	}
	if err == nil && (scheme == bank.ACHCCD || scheme == bank.SEPAB2B) { // short holds are for businesses only
		var payer bank.Payee
		if payer, err = order.Receiver(); err == nil && !payer.Business {
			err = errAccount
		}
	}
	if err == nil {
		_, err = a.EncodeDebit(1, tx.Now(), order)
	}
	if err != nil {
		return Mandate{}, errAccount.At("body", "/scheme")
	}
	from, err := json.Marshal(Proof{Address: p.Address, Browser: p.Browser})
	if err != nil {
		return Mandate{}, err
	}
	if m.sealedFrom, err = s.c.Setup.Sealer.Seal(m.sealPlace(), from); err != nil {
		return Mandate{}, err
	}
	if owns, err := s.guards.Owns(ctx, tx, m); err != nil {
		return Mandate{}, err
	} else if !owns {
		m.State, m.Reason = MandatePending, ReasonOwnership
	}
	if err := insertMandate(ctx, tx, m); err != nil {
		return Mandate{}, err
	}
	db.History(tx, m.CompanyID, m.ID, m.Version, "", string(m.State), "accepted by "+by.UserID)
	if err := m.emit(tx, ""); err != nil {
		return m, err
	}
	return m, m.notify(ctx, tx, mail.MandateAccepted)
}

func (m Mandate) sealPlace() identity.SealContext {
	return identity.SealContext{Table: "direct_debit_mandates", Column: "accepted_from", Row: m.CompanyID + "/" + m.ID}
}

// ProofOf returns the proof of a mandate.
func (s *Service) ProofOf(m Mandate) (p Proof, err error) {
	text, err := s.c.Setup.Sealer.Open(m.sealPlace(), m.sealedFrom)
	if err == nil {
		err = json.Unmarshal(text, &p)
	}
	p.Text, p.Language = m.text, m.language
	return p, err
}

// notify mails the owners and administrators about a change of the mandate.
func (m Mandate) notify(ctx context.Context, tx *db.Tx, change string) error {
	return notify(ctx, tx, m.CompanyID, fmt.Sprint(m.ID, "/", change, "/", m.Version), mail.DirectDebitData{Change: change,
		Account: m.Hint(), Mandate: m.Reference, Creditor: m.Creditor, CreditorID: m.CreditorID, Reason: m.Reason})
}

// advance stores the next state of a mandate and emits an event. It fails if the mandate has changed since it was
// read.
func (m *Mandate) advance(ctx context.Context, tx *db.Tx, to MandateState, reason, note string) error {
	from := m.State
	m.State, m.Reason = to, reason
	if err := updateMandate(ctx, tx, m, from); err != nil {
		return err
	}
	db.History(tx, m.CompanyID, m.ID, m.Version, string(from), string(to), note)
	return m.emit(tx, from)
}

func (m *Mandate) emit(tx *db.Tx, from MandateState) error {
	return webhook.Emit(tx, webhook.DirectDebitMandateUpdate.Event(m.CompanyID, m.ID, m.Version,
		webhook.DirectDebitMandateData{MandateID: m.ID, Scheme: string(m.Scheme), Reference: m.Reference,
			Status: string(m.State), PreviousStatus: string(from), Reason: m.Reason, Currency: m.Scheme.Asset()}))
}

// Revoke revokes a mandate and cancels its debits that were not sent. Revoking a mandate twice has no effect.
func (s *Service) Revoke(ctx context.Context, tx *db.Tx, by identity.Principal, companyID, id string) (Mandate, error) {
	company, err := by.Company(companyID)
	if err != nil {
		return Mandate{}, err
	}
	m, err := lockMandate(ctx, tx, company, id)
	if err != nil || m.State == MandateRevoked || m.State == MandateEnded {
		return m, err
	}
	if err := m.end(ctx, tx, MandateRevoked, ReasonMember, "revoked by "+by.ID); err != nil {
		return m, err
	}
	return m, m.notify(ctx, tx, mail.MandateRevoked)
}

// end ends a mandate and cancels its debits that were not sent.
func (m *Mandate) end(ctx context.Context, tx *db.Tx, to MandateState, reason, note string) error {
	if err := m.advance(ctx, tx, to, reason, note); err != nil {
		return err
	}
	return m.cancelScheduled(ctx, tx)
}

// cancelScheduled cancels the debits of a mandate that were not sent.
func (m *Mandate) cancelScheduled(ctx context.Context, tx *db.Tx) error {
	waiting, err := debitsWhere(ctx, tx, m.CompanyID, "mandate_id = $2 AND status = 'scheduled' ORDER BY debit_id", m.ID)
	for i := range waiting {
		if err == nil {
			err = waiting[i].advance(ctx, tx, Cancelled, ReasonMandate, "")
		}
	}
	return err
}

// GetMandate returns a mandate of the company, or ErrNotFound.
func GetMandate(ctx context.Context, tx *db.Tx, by identity.Principal, companyID, id string) (Mandate, error) {
	company, err := by.Company(companyID)
	if err != nil {
		return Mandate{}, err
	}
	return findMandate(ctx, tx, company, id)
}

// Mandates returns all mandates of a company, newest first.
func Mandates(ctx context.Context, tx *db.Tx, by identity.Principal, companyID string) ([]Mandate, error) {
	company, err := by.Company(companyID)
	if err != nil {
		return nil, err
	}
	return mandates(ctx, tx, company)
}

// DecideMandate records a decision by staff: it confirms or refuses a mandate whose account is being checked, or a
// suspended mandate.
func DecideMandate(ctx context.Context, tx *db.Tx, companyID, id string, confirm bool) error {
	m, err := lockMandate(ctx, tx, companyID, id)
	switch {
	case err != nil:
		return err
	case m.State != MandatePending && m.State != MandateSuspended:
		return errDecision
	case !confirm:
		return m.end(ctx, tx, MandateEnded, ReasonRefused, "refused by staff")
	}
	if err := ledger.CheckNoDebt(ctx, tx, companyID); err != nil {
		return err
	}
	return m.advance(ctx, tx, MandateActive, "", "confirmed by staff")
}

// expire ends SEPA mandates that were not used for 36 months.
func (s *Service) expire(ctx context.Context, d *db.DB) error {
	return d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		unused, err := unusedMandates(ctx, tx, tx.Now().AddDate(0, -unusedLife, 0))
		if err != nil {
			return err
		}
		for _, u := range unused {
			m, err := lockMandate(ctx, tx, u.CompanyID, u.ID)
			if err != nil {
				return err
			}
			if m.State == MandateRevoked || m.State == MandateEnded {
				continue
			}
			if err := m.end(ctx, tx, MandateEnded, ReasonUnused, ""); err != nil {
				return err
			}
		}
		return nil
	})
}
