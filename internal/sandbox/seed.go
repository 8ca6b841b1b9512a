package sandbox

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"errors"
	"sync"

	"github.com/alexedwards/argon2id"

	"github.com/stipend/stipend/internal/approval"
	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/bitcoin"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/invoice/payer"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payee"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/screening"
	"github.com/stipend/stipend/internal/withdrawal"
)

// Seed is the initial data of every sandbox. It is always the same, so that examples can be copied.
type Seed struct {
	CompanyID    string          `json:"company_id"`
	APIKey       string          `json:"api_key"`
	ClientID     string          `json:"client_id"`
	ClientSecret string          `json:"client_secret"`
	RedirectURI  string          `json:"redirect_uri"`
	Admin        SeedAdmin       `json:"admin"`
	Workers      []SeedWorker    `json:"workers"`
	Recipients   []SeedRecipient `json:"recipients"`
	PayerID      string          `json:"payer_id"`
}

// SeedAdmin is the administrator of the seeded company.
type SeedAdmin struct {
	Email    string `json:"email"`
	Password string `json:"password"`
}

// SeedWorker is a worker with a login. The last worker receives half of each payment by bank.
type SeedWorker struct {
	UserID string `json:"user_id"`
	Email  string `json:"email"`
}

// SeedRecipient is a recipient without a login.
type SeedRecipient struct {
	RecipientID   string `json:"recipient_id"`
	RecipientType string `json:"recipient_type"`
}

var seedEncoding = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

// seedBytes returns 32 bytes derived from a name. They are always the same, and public.
func seedBytes(name string) []byte {
	sum := sha256.Sum256([]byte("stipend sandbox " + name))
	return sum[:]
}

// SeedID returns the ID of an object of the initial data. It has the usual form, and sorts before all other IDs.
func SeedID(prefix, name string) string {
	b := make([]byte, 16)
	copy(b[6:], seedBytes("id "+prefix+" "+name))
	return prefix + "_" + seedEncoding.EncodeToString(b)
}

const (
	seedAppName = "Sandbox app"
	seedCompany = "Sandbox Company"
)

// BankWorker is the index of the worker who receives half of each payment by bank.
const BankWorker = 2

// DefaultSeed returns the seed of every sandbox.
func DefaultSeed() Seed {
	return Seed{
		CompanyID:    SeedID("com", "company"),
		APIKey:       "stp_sandbox_key_" + seedEncoding.EncodeToString(seedBytes("api key")),
		ClientID:     SeedID("cli", "client"),
		ClientSecret: "stp_sandbox_secret_" + seedEncoding.EncodeToString(seedBytes("client secret")),
		RedirectURI:  "http://127.0.0.1:8081/callback",
		Admin:        SeedAdmin{"admin@sandbox.example", "sandbox-admin-password"},
		Workers: []SeedWorker{
			{SeedID("usr", "ada"), "ada@sandbox.example"},
			{SeedID("usr", "grace"), "grace@sandbox.example"},
			{SeedID("usr", "edsger"), "edsger@sandbox.example"},
		},
		Recipients: []SeedRecipient{
			{SeedID("rec", "person"), payee.TypeUser},
			{SeedID("rec", "firm"), payee.TypeCompany},
		},
		PayerID: SeedID("pyr", "payer"),
	}
}

// SeedWallet returns the wallet of the payees in the initial data. It is not the service's wallet.
func SeedWallet() (*bitcoin.Signer, error) {
	key, err := bitcoin.MasterFromSeed(seedBytes("payees"), "regtest")
	if err != nil {
		return nil, err
	}
	return bitcoin.ParseXPriv(key, "regtest")
}

// adminHash returns the hash of the administrator's password. It is computed once per process, because that takes 50
// ms by design.
var adminHash = sync.OnceValues(func() (string, error) {
	return argon2id.CreateHash(DefaultSeed().Admin.Password, argon2id.DefaultParams)
})

// SeedOptions are the dependencies of WriteSeed.
type SeedOptions struct {
	Sealer                           *identity.Sealer
	Setup                            destination.Setup
	FeeBps, PremiumBps, ToleranceBps int64 // fee, premium and tolerance of the seeded company, in basis points
}

// WriteSeed writes the initial data in one transaction, unless the company in it already exists.
func WriteSeed(ctx context.Context, d *db.DB, o SeedOptions) error {
	hash, err := adminHash()
	if err != nil {
		return err
	}
	addresses, err := SeedAddresses(o.Setup.BitcoinNetwork, 6)
	if err != nil {
		return err
	}
	return d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		w := seeding{SeedOptions: o, tx: tx, seed: DefaultSeed(), adminHash: hash, addresses: addresses}
		return w.run(ctx)
	})
}

// SeedAddresses returns n addresses of payees of the initial data on a network.
func SeedAddresses(network string, n uint32) ([]string, error) {
	wallet, err := SeedWallet()
	if err != nil {
		return nil, err
	}
	deriver := wallet.Deriver()
	if network != "regtest" {
		// The public test networks share one format of extended keys.
		if deriver, err = bitcoin.ParseXPub(deriver.XPub(), network); err != nil {
			return nil, err
		}
	}
	var all []string
	for i := range n {
		a, err := deriver.Address(chain.External, i)
		if err != nil {
			return nil, err
		}
		all = append(all, a)
	}
	return all, nil
}

// seeding writes the initial data in one transaction.
type seeding struct {
	SeedOptions
	tx        *db.Tx
	seed      Seed
	adminHash string
	addresses []string
}

func (w seeding) run(ctx context.Context) error {
	first, err := insertSeedCompany(ctx, w.tx, w.seed.CompanyID, w.SeedOptions)
	if err != nil || !first {
		return err
	}
	adminID := SeedID("usr", "admin")
	if err := w.user(ctx, adminID, w.seed.Admin.Email, "Alex", "Admin", w.adminHash); err != nil {
		return err
	}
	if err := identity.AddMember(ctx, w.tx, identity.Member{CompanyID: w.seed.CompanyID, UserID: adminID,
		Role: "admin"}); err != nil {
		return err
	}
	appID := SeedID("app", "app")
	if err := insertSeedApp(ctx, w.tx, w.seed, appID); err != nil {
		return err
	}
	if _, _, err := identity.CreateAPIKey(ctx, w.tx, identity.Sandbox, identity.NewAPIKey{
		CompanyID: w.seed.CompanyID, AppID: appID, Token: w.seed.APIKey,
	}); err != nil {
		return err
	}

	names := [][2]string{{"Ada", "Lovelace"}, {"Grace", "Hopper"}, {"Edsger", "Dijkstra"}}
	for i, worker := range w.seed.Workers {
		if err := w.user(ctx, worker.UserID, worker.Email, names[i][0], names[i][1], ""); err != nil {
			return err
		}
		if _, err := payee.AddWorker(ctx, w.tx, w.seed.CompanyID, worker.UserID, payee.Contractor); err != nil {
			return err
		}
		if err := w.destinations(ctx, worker.UserID, w.addresses[i], i == BankWorker); err != nil {
			return err
		}
	}
	for i, r := range w.seed.Recipients {
		if err := insertSeedRecipient(ctx, w.tx, w.Sealer, w.seed.CompanyID, r); err != nil {
			return err
		}
		if err := w.destinations(ctx, r.RecipientID, w.addresses[len(names)+i], false); err != nil {
			return err
		}
	}
	// Add the company's own address for withdrawals of its balance, which API clients cannot add.
	withdrawals, err := withdrawal.New(withdrawal.Config{Setup: w.Setup, AllowUnverified: true}, withdrawal.Guards{
		Screen: func(context.Context, *db.Tx, string, []destination.ScreeningSubject) (map[string]bool, error) {
			return nil, screening.ErrUnavailable // the initial data contains no withdrawal
		},
		ReleaseApproved: approval.ReleaseLimit{}.Approved,
		TravelRule: func(context.Context, *db.Tx, []payout.Output) (map[string]string, error) {
			return nil, errors.New("sandbox: the seed makes no withdrawal")
		},
	})
	if err != nil {
		return err
	}
	admin := identity.Principal{Kind: identity.KindSession, ID: "seed", CompanyID: w.seed.CompanyID, UserID: adminID}
	vault, err := json.Marshal(map[string]string{"address": w.addresses[len(w.addresses)-1]})
	if err != nil {
		return err
	}
	if _, err := withdrawals.AddDestination(ctx, w.tx, admin, "Sandbox vault", "BTC", vault); err != nil {
		return err
	}
	_, err = payer.Ensure(ctx, w.tx, payer.Payer{
		OwnerID: w.seed.CompanyID, ID: w.seed.PayerID, Name: "Sandbox Customer", Email: "customer@sandbox.example",
		Type: payer.Client, Currency: money.USD, Status: payer.Active,
	})
	return err
}

// seedDetails returns the personal details of a user with a complete profile.
func seedDetails() identity.Details {
	return identity.Details{
		PhoneNumber: "+12025550123", PhoneCountry: "US", DateOfBirth: "1990-01-31",
		StreetAddress: "1 Example Street", City: "Springfield", State: "IL", Zip: "62701",
	}
}

func (w seeding) user(ctx context.Context, id, email, first, last, hash string) error {
	return insertSeedUser(ctx, w.tx, w.Sealer, w.seed.CompanyID, id, email, first, last, hash)
}

// destinations adds a Bitcoin address that receives all of a payee's payments. If bank is true, the address receives
// half, and a bank account the other half.
func (w seeding) destinations(ctx context.Context, ownerID, address string, bank bool) error {
	by := identity.Principal{Kind: identity.KindAPIKey, CompanyID: w.seed.CompanyID, Scopes: identity.AllScopes()}
	first, err := w.destination(ctx, by, ownerID, "BTC", map[string]any{"address": address})
	if err != nil || !bank {
		return err
	}
	second, err := w.destination(ctx, by, ownerID, "USD", map[string]any{
		"account_holder_name": "Edsger Dijkstra", "account_holder_type": "individual",
		"routing_number": "110000000", "account_number": "000123456789", "account_type": "checking",
		"address": map[string]any{"address_line1": "1 Example Street", "city": "Springfield", "state": "IL",
			"postal_code": "62701", "country": "US"},
	})
	if err != nil {
		return err
	}
	_, err = destination.SetAllocations(ctx, w.tx, by, ownerID, []destination.Share{{DistributionID: first,
		Allocation: "50"}, {DistributionID: second, Allocation: "50"}})
	return err
}

func (w seeding) destination(ctx context.Context, by identity.Principal, ownerID, symbol string,
	data map[string]any) (string, error) {
	text, err := json.Marshal(data)
	if err != nil {
		return "", err
	}
	d, err := destination.Create(ctx, w.tx, w.Setup, by, destination.CreateParams{OwnerID: ownerID, Symbol: symbol,
		Data: text})
	return d.ID, err
}
