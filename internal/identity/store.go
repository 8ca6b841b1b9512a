package identity

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
)

func insertCompany(ctx context.Context, tx *db.Tx, c Company) error {
	now := db.Micros(c.Created)
	return tx.Insert(ctx, "companies", []string{"company_id", "name", "email", "website", "country", "status",
		"kyb_status", "funding_method",
		"fee_bps", "premium_bps", "tolerance_bps", "platform_id", "platform_fee_bps", "version", "created_at", "updated_at"},
		[][]any{{c.ID, c.Name, c.Email, c.Website, c.Country, c.Status, c.KYBStatus, c.FundingMethod,
			c.FeeBps, c.PremiumBps, c.ToleranceBps, c.PlatformID, c.PlatformFeeBps, c.Version, now, now}})
}

var companies = db.NewLoader(func(tx *db.Tx, ids []string, found func(string, Company)) (all []db.Statement) {
	for in, args := range db.BindList(tx, ids, 1) {
		all = append(all, db.Statement{Query: `SELECT company_id, name, email, website, country, status, kyb_status,
			funding_method,
			fee_bps, premium_bps, tolerance_bps, platform_id, platform_fee_bps, version, created_at
			FROM companies WHERE company_id IN ` + in, Args: args,
			Row: func(r *db.Rows) error {
				var c Company
				var created int64
				err := r.Scan(&c.ID, &c.Name, &c.Email, &c.Website, &c.Country, &c.Status, &c.KYBStatus, &c.FundingMethod,
					&c.FeeBps, &c.PremiumBps, &c.ToleranceBps, &c.PlatformID, &c.PlatformFeeBps, &c.Version, &created)
				c.Created = db.Time(created)
				found(c.ID, c)
				return err
			}})
	}
	return all
})

// CompanyByID returns a company, or apierr.NotFoundErr.
func CompanyByID(ctx context.Context, tx *db.Tx, id string) (Company, error) {
	c, found, err := companies.Get(ctx, tx, id)
	if err == nil && !found {
		err = apierr.NotFoundErr
	}
	return c, err
}

// insertUser inserts a user. If two people sign up with an address concurrently, the unique index lets only one
// succeed.
func insertUser(ctx context.Context, tx *db.Tx, u User) error {
	now, signIn := db.Micros(u.Created), ""
	if u.signsIn {
		signIn = EmailKey(u.Email)
	}
	n, err := tx.Exec(ctx, `INSERT INTO users (user_id, email, email_key, sign_in_key, company_id, kyc_status,
		password_hash, first_name, last_name, country, details, complete, version, created_at, updated_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15) ON CONFLICT DO NOTHING`,
		u.ID, u.Email, EmailKey(u.Email), signIn, u.CompanyID, u.KYCStatus, u.passwordHash,
		u.FirstName, u.LastName, u.Country, u.sealed, u.Complete, u.Version, now, now)
	if err == nil && n == 0 {
		return ErrEmailTaken.At("body", "/email")
	}
	return err
}

// insertCompanyUser inserts a company's user. The unique index ensures that an address belongs to only one user of
// the company.
func insertCompanyUser(ctx context.Context, tx *db.Tx, u User) error {
	n, err := tx.Exec(ctx, `INSERT INTO company_users (company_id, user_id, email_key, created_at)
		VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING`, u.CompanyID, u.ID, EmailKey(u.Email), db.Micros(u.Created))
	if err != nil || n == 1 {
		return err
	}
	var existing string
	err = tx.QueryRow(ctx, "SELECT user_id FROM company_users WHERE company_id = $1 AND email_key = $2", u.CompanyID,
		EmailKey(u.Email)).Scan(&existing)
	if err != nil {
		return err
	}
	return ErrUserExists.Set("user_id", existing).At("body", "/email")
}

// selectCompanyUser returns a user that the company created.
func selectCompanyUser(ctx context.Context, tx *db.Tx, companyID, userID string) (User, error) {
	var one int
	err := tx.QueryRow(ctx, "SELECT 1 FROM company_users WHERE company_id = $1 AND user_id = $2", companyID,
		userID).Scan(&one)
	if err != nil {
		return User{}, missing(err)
	}
	return selectUser(ctx, tx, "user_id", userID)
}

// selectUser returns the user for whom a column has a value, which must not be empty. The column's name must never
// come from a request.
func selectUser(ctx context.Context, tx *db.Tx, column, value string) (User, error) {
	var u User
	var signIn string
	var created, closed int64
	err := tx.QueryRow(ctx, `SELECT user_id, email, sign_in_key, company_id, kyc_status, password_hash, first_name,
		last_name, country, details, complete, language, time_zone, number_format, version, created_at, closed_at
		FROM users WHERE `+column+` = $1 AND `+column+` <> ''`, value).
		Scan(&u.ID, &u.Email, &signIn, &u.CompanyID, &u.KYCStatus, &u.passwordHash, &u.FirstName, &u.LastName, &u.Country,
			&u.sealed, &u.Complete, &u.Locale.Language, &u.Locale.TimeZone, &u.Locale.NumberFormat, &u.Version, &created,
			&closed)
	if err != nil {
		return User{}, missing(err)
	}
	u.Created, u.signsIn, u.Closed = db.Time(created), signIn != "", closed > 0
	return u, nil
}

// SetLocale stores how pages and mails are written for a user.
func SetLocale(ctx context.Context, tx *db.Tx, userID string, l Locale) error {
	return changed(tx.Exec(ctx, `UPDATE users SET language = $2, time_zone = $3, number_format = $4, updated_at = $5
		WHERE user_id = $1`, userID, l.Language, l.TimeZone, l.NumberFormat, db.Micros(tx.Now())))
}

// LanguageAt returns the language chosen by the user who signs in with an email address, or "".
func LanguageAt(ctx context.Context, tx *db.Tx, address string) (language string, err error) {
	err = tx.QueryRow(ctx, "SELECT language FROM users WHERE sign_in_key = $1", EmailKey(address)).Scan(&language)
	if errors.Is(err, db.ErrNoRows) {
		return "", nil
	}
	return language, err
}

// AddMember adds a member to a company or changes their role.
func AddMember(ctx context.Context, tx *db.Tx, m Member) error {
	_, err := tx.Exec(ctx, `INSERT INTO members (company_id, user_id, role, role_since, created_at)
		VALUES ($1, $2, $3, $4, $4) ON CONFLICT (company_id, user_id) DO UPDATE SET role = excluded.role,
		role_since = CASE WHEN members.role IN ($5, $6) AND excluded.role IN ($5, $6) THEN members.role_since
			ELSE excluded.role_since END`, m.CompanyID, m.UserID, m.Role, db.Micros(tx.Now()), RoleOwner, RoleAdmin)
	return err
}

// DeleteMember deletes a membership. The caller must also end the member's sessions and revoke their consents.
func DeleteMember(ctx context.Context, tx *db.Tx, companyID, userID string) error {
	_, err := tx.Exec(ctx, "DELETE FROM members WHERE company_id = $1 AND user_id = $2", companyID, userID)
	return err
}

// RevokeGrants revokes a user's consents for a company, and the user's unused authorization codes and allowed device
// codes.
func RevokeGrants(ctx context.Context, tx *db.Tx, companyID, userID string) error {
	tx.Notify(NoticeRevoked)
	for _, statement := range []string{
		"DELETE FROM authorization_codes WHERE company_id = $1 AND user_id = $2 AND used_at = 0",
		"DELETE FROM device_codes WHERE company_id = $1 AND user_id = $2 AND state = 'allowed'",
	} {
		if _, err := tx.Exec(ctx, statement, companyID, userID); err != nil {
			return err
		}
	}
	_, err := tx.Exec(ctx, `UPDATE app_grants SET revoked_at = $3
		WHERE company_id = $1 AND user_id = $2 AND revoked_at = 0`, companyID, userID, db.Micros(tx.Now()))
	return err
}

// NextCompanyVersion increments and returns the version of a company. Concurrent transactions that call it for the
// same company wait until the commit.
func NextCompanyVersion(ctx context.Context, tx *db.Tx, companyID string) (version int64, err error) {
	err = tx.QueryRow(ctx, `UPDATE companies SET version = version + 1, updated_at = $2
		WHERE company_id = $1 RETURNING version`, companyID, db.Micros(tx.Now())).Scan(&version)
	return version, missing(err)
}

// Administrators returns the user IDs of a company's owners and administrators.
func Administrators(ctx context.Context, tx *db.Tx, companyID string) ([]string, error) {
	return AdministratorsSince(ctx, tx, companyID, tx.Now())
}

// AdministratorsSince returns the user IDs of a company's owners and administrators who have had their role since a
// given time.
func AdministratorsSince(ctx context.Context, tx *db.Tx, companyID string, since time.Time) ([]string, error) {
	rows, err := tx.Query(ctx, `SELECT user_id FROM members
		WHERE company_id = $1 AND role IN ($2, $3) AND role_since <= $4 ORDER BY user_id`,
		companyID, RoleOwner, RoleAdmin, db.Micros(since))
	return db.Collect(rows, err, func(r *db.Rows) (id string, err error) { return id, r.Scan(&id) })
}

// Memberships returns a user's memberships in companies, oldest first.
func Memberships(ctx context.Context, tx *db.Tx, userID string) ([]Member, error) {
	ctx = db.AcrossCompanies(ctx, "a person is a member of several companies; the statement names the person")
	rows, err := tx.Query(ctx, "SELECT company_id, role FROM members WHERE user_id = $1 ORDER BY created_at, company_id",
		userID)
	return db.Collect(rows, err, func(r *db.Rows) (Member, error) {
		m := Member{UserID: userID}
		return m, r.Scan(&m.CompanyID, &m.Role)
	})
}

func insertApp(ctx context.Context, tx *db.Tx, a App) error {
	return tx.Insert(ctx, "apps", []string{"company_id", "app_id", "name", "client_id", "secret_digest", "redirect_uri",
		"scopes", "status", "created_at", "name_skeleton"},
		[][]any{{a.CompanyID, a.ID, a.Name, a.ClientID, a.secretDigest, a.RedirectURI, a.Scopes.String(), "active",
			db.Micros(tx.Now()), skeleton(a.Name)}})
}

func upsertCommandLine(ctx context.Context, tx *db.Tx, scopes Scopes) error {
	const name = "Stipend command line"
	_, err := tx.Exec(ctx, `INSERT INTO apps (company_id, app_id, name, client_id, secret_digest, redirect_uri, scopes,
			status, created_at, name_skeleton)
		VALUES ('', 'app_cli', $1, $2, '', '', $3, 'active', $4, $5)
		ON CONFLICT (company_id, app_id) DO UPDATE SET scopes = excluded.scopes WHERE apps.scopes <> excluded.scopes`,
		name, CommandLineClient, scopes.String(), db.Micros(tx.Now()), skeleton(name))
	return err
}

// nameTaken reports whether another company has an active app whose name has the given skeleton. If verified is true,
// it considers only verified companies.
func nameTaken(ctx context.Context, tx *db.Tx, companyID, folded string, verified bool) (bool, error) {
	var n int
	ctx = db.AcrossCompanies(ctx, "names of apps are unique among all companies; only a number is read")
	err := tx.QueryRow(ctx, `SELECT COUNT(*) FROM apps a JOIN companies c ON c.company_id = a.company_id
		WHERE a.name_skeleton = $1 AND a.name_skeleton <> '' AND a.company_id <> $2 AND a.status = 'active'
		AND (NOT $3 OR c.kyb_status = 'approved')`, folded, companyID, verified).Scan(&n)
	return n > 0, err
}

// AppByClientID returns the active app with a client ID, or apierr.NotFoundErr.
func AppByClientID(ctx context.Context, tx *db.Tx, clientID string) (App, error) {
	return activeApp(ctx, tx, "client_id", clientID)
}

// AppWithID returns an active app of any company by its ID, or apierr.NotFoundErr.
func AppWithID(ctx context.Context, tx *db.Tx, appID string) (App, error) {
	return activeApp(ctx, tx, "app_id", appID)
}

func activeApp(ctx context.Context, tx *db.Tx, column, value string) (a App, err error) {
	var scopes string
	var created int64
	ctx = db.AcrossCompanies(ctx, "an app of one company is used by others; the statement names the app")
	err = tx.QueryRow(ctx, `SELECT company_id, app_id, name, client_id, secret_digest, redirect_uri, scopes, created_at,
		dpop FROM apps WHERE `+column+" = $1 AND status = 'active'", value).
		Scan(&a.CompanyID, &a.ID, &a.Name, &a.ClientID, &a.secretDigest, &a.RedirectURI, &scopes, &created, &a.DPoP)
	if err != nil {
		return App{}, missing(err)
	}
	a.Scopes, a.Created = storedScopes(scopes), db.Time(created)
	return a, nil
}

func insertAPIKey(ctx context.Context, tx *db.Tx, keyID, token string, n NewAPIKey) error {
	var expires int64
	if !n.Expires.IsZero() {
		expires = db.Micros(n.Expires)
	}
	return tx.Insert(ctx, "api_keys", []string{"digest", "company_id", "key_id", "app_id", "hint", "created_at",
		"expires_at", "revoked_at", "last_used_at"},
		[][]any{{Digest(token), n.CompanyID, keyID, n.AppID, token[len(token)-4:], db.Micros(tx.Now()), expires, int64(0),
			int64(0)}})
}

func insertAccessToken(ctx context.Context, tx *db.Tx, tokenID, token string, n NewAccessToken) error {
	return tx.Insert(ctx, "access_tokens", []string{"digest", "company_id", "token_id", "grant_id", "app_id", "user_id",
		"scopes", "proof_key", "created_at", "expires_at", "revoked_at", "last_used_at"},
		[][]any{{Digest(token), n.CompanyID, tokenID, n.GrantID, n.AppID, n.UserID, n.Scopes.String(), n.ProofKey,
			db.Micros(tx.Now()),
			db.Micros(tx.Now().Add(n.Life)), int64(0), int64(0)}})
}

func insertGrant(ctx context.Context, tx *db.Tx, g Grant) error {
	return tx.Insert(ctx, "app_grants", []string{"company_id", "grant_id", "app_id", "user_id", "scopes", "expires_at",
		"revoked_at", "created_at"},
		[][]any{{g.CompanyID, g.ID, g.AppID, g.UserID, g.Scopes.String(), db.Micros(g.Expires), int64(0),
			db.Micros(tx.Now())}})
}

// managedBy is the condition under which a consent g is in effect: it was given for the user alone, or by a user who
// still manages the company, or by a company to the platform that created it. Its arguments are the roles that manage
// a company.
const managedBy = `(g.company_id = '' OR c.status <> 'closed' AND (g.user_id = '' OR EXISTS (SELECT 1 FROM members m
	WHERE m.company_id = g.company_id AND m.user_id = g.user_id AND m.role IN ($1, $2, $3))))`

// GrantByID returns a consent that is in effect, or apierr.NotFoundErr. Such a consent was not revoked and has not
// expired, its app is active, and, if it is for a company, the user still manages the company.
func GrantByID(ctx context.Context, tx *db.Tx, companyID, grantID string) (Grant, error) {
	g := Grant{CompanyID: companyID, ID: grantID}
	var scopes, allowed string
	var expires int64
	ctx = db.AcrossCompanies(ctx, "an app of one company is used by others; the statement names the grant")
	err := tx.QueryRow(ctx, `SELECT g.app_id, g.user_id, g.scopes, a.scopes, g.expires_at
		FROM app_grants g
		JOIN apps a ON a.app_id = g.app_id
		LEFT JOIN companies c ON c.company_id = g.company_id
		WHERE g.company_id = $4 AND g.grant_id = $5 AND g.revoked_at = 0 AND g.expires_at > $6 AND a.status = 'active'
			AND `+managedBy, RoleOwner, RoleAdmin, RoleDeveloper, companyID, grantID, db.Micros(tx.Now())).
		Scan(&g.AppID, &g.UserID, &scopes, &allowed, &expires)
	if err != nil {
		return Grant{}, missing(err)
	}
	g.Scopes, g.Expires = storedScopes(scopes)&storedScopes(allowed), db.Time(expires)
	return g, nil
}

// selectReach returns the owner, the name and the scopes of an app. An inactive app has no scopes.
func selectReach(ctx context.Context, tx *db.Tx, appID string) (owner, name string, scopes Scopes, err error) {
	var text, status string
	ctx = db.AcrossCompanies(ctx, "an app of one company is used by others; the statement names the app")
	err = tx.QueryRow(ctx, "SELECT company_id, name, scopes, status FROM apps WHERE app_id = $1", appID).
		Scan(&owner, &name, &text, &status)
	if status == "active" {
		scopes = storedScopes(text)
	}
	return owner, name, scopes, missing(err)
}

// grantedScopes returns the scopes of all consents to an app that are in effect for a company (see [GrantByID]).
func grantedScopes(ctx context.Context, tx *db.Tx, companyID, appID string) (all Scopes, err error) {
	rows, err := tx.Query(ctx, `SELECT g.scopes
		FROM app_grants g
		LEFT JOIN companies c ON c.company_id = g.company_id
		WHERE g.company_id = $4 AND g.app_id = $5 AND g.revoked_at = 0 AND g.expires_at > $6 AND `+managedBy,
		RoleOwner, RoleAdmin, RoleDeveloper, companyID, appID, db.Micros(tx.Now()))
	sets, err := db.Collect(rows, err, func(r *db.Rows) (string, error) {
		var text string
		err := r.Scan(&text)
		return text, err
	})
	for _, text := range sets {
		all |= storedScopes(text)
	}
	return all, err
}

// RevokeGrant revokes a consent and all its tokens. Repeating the call has no effect.
func RevokeGrant(ctx context.Context, tx *db.Tx, companyID, grantID string) error {
	tx.Notify(NoticeRevoked)
	_, err := tx.Exec(ctx, `UPDATE app_grants SET revoked_at = $1
		WHERE company_id = $2 AND grant_id = $3 AND revoked_at = 0`, db.Micros(tx.Now()), companyID, grantID)
	return err
}

// ForgetAccessTokens deletes access tokens that expired before a given time.
func ForgetAccessTokens(ctx context.Context, tx *db.Tx, before time.Time) error {
	_, err := tx.Exec(ctx, "DELETE FROM access_tokens WHERE expires_at < $1", db.Micros(before))
	return err
}

// selectAPIKey returns the principal of an API key. The scopes are those of the app, so restricting an app
// immediately restricts its keys.
func selectAPIKey(ctx context.Context, tx *db.Tx, digest string) (Principal, error) {
	p := Principal{Kind: KindAPIKey}
	var scopes string
	var used int64
	err := tx.QueryRow(ctx, `SELECT k.key_id, k.company_id, k.app_id, a.scopes, k.last_used_at
		FROM api_keys k
		JOIN apps a ON a.company_id = k.company_id AND a.app_id = k.app_id
		JOIN companies c ON c.company_id = k.company_id
		WHERE k.digest = $1 AND k.revoked_at = 0 AND (k.expires_at = 0 OR k.expires_at > $2)
			AND a.status = 'active' AND c.status <> 'closed'`, digest, db.Micros(tx.Now())).
		Scan(&p.ID, &p.CompanyID, &p.AppID, &scopes, &used)
	if err != nil {
		return Principal{}, unknown(err)
	}
	return found(p, scopes, used), nil
}

// selectAccessToken returns the principal of an access token. The principal has those of the token's scopes that the
// app still has. If the token is for a company, the user must still manage the company, even if the token was not
// revoked.
func selectAccessToken(ctx context.Context, tx *db.Tx, digest string) (Principal, error) {
	p := Principal{Kind: KindOAuth}
	var scopes, allowed string
	var used int64
	err := tx.QueryRow(ctx, `SELECT t.token_id, t.company_id, t.app_id, t.user_id, t.scopes, a.scopes, t.proof_key,
			t.last_used_at
		FROM access_tokens t
		JOIN app_grants g ON g.company_id = t.company_id AND g.grant_id = t.grant_id
		JOIN apps a ON a.app_id = t.app_id
		LEFT JOIN companies c ON c.company_id = t.company_id
		WHERE t.digest = $4 AND t.revoked_at = 0 AND t.expires_at > $5 AND g.revoked_at = 0
			AND (t.last_used_at > $6 OR t.last_used_at = 0 AND t.created_at > $6)
			AND a.status = 'active' AND (NOT a.dpop OR t.proof_key <> '' OR t.user_id = '')
			AND `+managedBy, RoleOwner, RoleAdmin, RoleDeveloper,
		digest, db.Micros(tx.Now()), db.Micros(tx.Now().Add(-TokenIdle))).
		Scan(&p.ID, &p.CompanyID, &p.AppID, &p.UserID, &scopes, &allowed, &p.ProofKey, &used)
	if err != nil {
		return Principal{}, unknown(err)
	}
	if p.UserID == "" {
		p.Kind = KindPlatform
	}
	p = found(p, scopes, used)
	p.Scopes &= storedScopes(allowed)
	return p, nil
}

// found returns p with its scopes and the time of its last use.
func found(p Principal, scopes string, used int64) Principal {
	p.Scopes = storedScopes(scopes)
	if used > 0 {
		p.LastUsed = db.Time(used)
	}
	return p
}

// storedScopes parses stored scopes. It ignores scopes that no longer exist.
func storedScopes(text string) Scopes {
	var set Scopes
	for name := range strings.FieldsSeq(text) {
		set |= scopeBits[name]
	}
	return set
}

// touch stores the current time as the last use of a credential, unless a later time is stored.
func touch(ctx context.Context, tx *db.Tx, table, idColumn string, p Principal) error {
	_, err := tx.Exec(ctx, "UPDATE "+table+" SET last_used_at = $1 WHERE company_id = $2 AND "+idColumn+" = $3 AND "+
		"last_used_at < $1",
		db.Micros(tx.Now()), p.CompanyID, p.ID)
	return err
}

func revoke(ctx context.Context, tx *db.Tx, table, idColumn, companyID, id string) error {
	n, err := tx.Exec(ctx, "UPDATE "+table+" SET revoked_at = $1 WHERE company_id = $2 AND "+idColumn+" = $3 AND "+
		"revoked_at = 0",
		db.Micros(tx.Now()), companyID, id)
	if err != nil || n == 1 {
		tx.Notify(NoticeRevoked)
		return err
	}
	var one int
	err = tx.QueryRow(ctx, "SELECT 1 FROM "+table+" WHERE company_id = $1 AND "+idColumn+" = $2", companyID, id).Scan(&one)
	return missing(err)
}

// TokenProvenAt returns the time at which a person last presented a second factor with the principal's access token,
// or the zero time.
func TokenProvenAt(ctx context.Context, tx *db.Tx, by Principal) (time.Time, error) {
	if by.Kind != KindOAuth {
		return time.Time{}, nil
	}
	var at int64
	err := tx.QueryRow(ctx, "SELECT proven_at FROM access_tokens WHERE company_id = $1 AND token_id = $2", by.CompanyID,
		by.ID).Scan(&at)
	if err != nil || at == 0 {
		return time.Time{}, missing(err)
	}
	return db.Time(at), nil
}

// RequireProven returns ErrNotProven unless a person has presented a second factor with the principal's access token
// within [FreshFactor].
func RequireProven(ctx context.Context, tx *db.Tx, by Principal) error {
	proven, err := TokenProvenAt(ctx, tx, by)
	if err == nil && tx.Now().Sub(proven) >= FreshFactor {
		err = ErrNotProven
	}
	return err
}

// ProveToken records on the principal's access token that the person who uses it has just presented a second factor.
func ProveToken(ctx context.Context, tx *db.Tx, by Principal) error {
	return tx.ExecOne(ctx, "UPDATE access_tokens SET proven_at = $1 WHERE company_id = $2 AND token_id = $3",
		db.Micros(tx.Now()), by.CompanyID, by.ID)
}

func revokeToken(ctx context.Context, tx *db.Tx, appID, digest string) error {
	tx.Notify(NoticeRevoked)
	_, err := tx.Exec(ctx, "UPDATE access_tokens SET revoked_at = $1 WHERE digest = $2 AND app_id = $3 AND revoked_at = 0",
		db.Micros(tx.Now()), digest, appID)
	return err
}

// RevokeAppGrants revokes a user's consents to an app for a company, or for the user alone if companyID is empty.
func RevokeAppGrants(ctx context.Context, tx *db.Tx, companyID, userID, appID string) error {
	tx.Notify(NoticeRevoked)
	_, err := tx.Exec(ctx, `UPDATE app_grants SET revoked_at = $1
		WHERE company_id = $2 AND user_id = $3 AND app_id = $4 AND revoked_at = 0`,
		db.Micros(tx.Now()), companyID, userID, appID)
	return err
}

// missing returns apierr.NotFoundErr for db.ErrNoRows, and any other error unchanged.
func missing(err error) error {
	if errors.Is(err, db.ErrNoRows) {
		return apierr.NotFoundErr
	}
	return err
}

// unknown returns ErrInvalidToken for db.ErrNoRows, and any other error unchanged.
func unknown(err error) error {
	if errors.Is(err, db.ErrNoRows) {
		return ErrInvalidToken
	}
	return err
}

// SetPasswordHash changes the password of a user who signs in. It returns apierr.NotFoundErr for any other user.
func SetPasswordHash(ctx context.Context, tx *db.Tx, userID, hash string) error {
	return changed(tx.Exec(ctx, `UPDATE users SET password_hash = $2, version = version + 1, updated_at = $3
		WHERE user_id = $1 AND sign_in_key <> ''`, userID, hash, db.Micros(tx.Now())))
}

// ChangeSignInEmail changes the email address with which a user signs in. It returns ErrEmailTaken if the user's
// address is not from any more, or if someone already signs in with the address to.
func ChangeSignInEmail(ctx context.Context, tx *db.Tx, userID, from, to string) error {
	n, err := tx.Exec(ctx, `UPDATE users SET email = $3, email_key = $4, sign_in_key = $4, version = version + 1,
			updated_at = $5
		WHERE user_id = $1 AND sign_in_key = $2 AND NOT EXISTS (SELECT 1 FROM users u WHERE u.sign_in_key = $4)`,
		userID, EmailKey(from), to, EmailKey(to), db.Micros(tx.Now()))
	if err == nil && n != 1 {
		return ErrEmailTaken
	}
	return err
}

// LockPassword prevents concurrent changes of a user's password until the commit. It returns ErrPasswordChanged if
// the password has changed since u was read, which can happen because passwords are checked outside transactions.
func LockPassword(ctx context.Context, tx *db.Tx, u User) error {
	n, err := tx.Exec(ctx, "UPDATE users SET password_hash = password_hash WHERE user_id = $1 AND password_hash = $2",
		u.ID, u.passwordHash)
	if err == nil && n != 1 {
		err = ErrPasswordChanged
	}
	return err
}

// replaceUser updates a user. It returns false if the user has changed since it was read.
func replaceUser(ctx context.Context, tx *db.Tx, u User) (bool, error) {
	n, err := tx.Exec(ctx, `UPDATE users SET email = $3, email_key = $4, first_name = $5, last_name = $6, country = $7,
		details = $8, complete = $9, version = $10, updated_at = $11
		WHERE user_id = $1 AND version = $2`,
		u.ID, u.Version-1, u.Email, EmailKey(u.Email), u.FirstName, u.LastName, u.Country, u.sealed, u.Complete, u.Version,
		db.Micros(tx.Now()))
	return n == 1, err
}

// setCompanyUserEmail changes the email address of a company's user. It deletes the row and inserts it again, because
// insertCompanyUser returns ErrUserExists for a taken address, while an UPDATE would make the transaction fail.
func setCompanyUserEmail(ctx context.Context, tx *db.Tx, u User) error {
	var created int64
	err := tx.QueryRow(ctx, "DELETE FROM company_users WHERE company_id = $1 AND user_id = $2 RETURNING created_at",
		u.CompanyID, u.ID).Scan(&created)
	if err != nil {
		return err
	}
	old := u
	old.Created = db.Time(created)
	return insertCompanyUser(ctx, tx, old)
}

// LockUser prevents concurrent changes of a user until the commit.
func LockUser(ctx context.Context, tx *db.Tx, userID string) error {
	return changed(tx.Exec(ctx, "UPDATE users SET version = version WHERE user_id = $1", userID))
}

// SetKYCStatus stores the state of a user's verification, or returns apierr.NotFoundErr.
func SetKYCStatus(ctx context.Context, tx *db.Tx, userID, status string) error {
	return changed(tx.Exec(ctx, `UPDATE users SET kyc_status = $2, version = version + 1, updated_at = $3
		WHERE user_id = $1`, userID, status, db.Micros(tx.Now())))
}

// SetKYBStatus stores the state of a company's verification, or returns apierr.NotFoundErr.
func SetKYBStatus(ctx context.Context, tx *db.Tx, companyID, status string) error {
	return changed(tx.Exec(ctx, `UPDATE companies SET kyb_status = $2, version = version + 1, updated_at = $3
		WHERE company_id = $1`, companyID, status, db.Micros(tx.Now())))
}

// SetCompanyStatus changes a company's status. It returns false if the current status is not from. A company that is
// frozen because of a debt can be frozen again, so that paying the debt no longer ends the freeze.
func SetCompanyStatus(ctx context.Context, tx *db.Tx, companyID, from, to string) (bool, error) {
	n, err := tx.Exec(ctx, `UPDATE companies SET status = $3, for_debt = FALSE, version = version + 1, updated_at = $4
		WHERE company_id = $1 AND (status = $2 OR status = $3 AND for_debt)`, companyID, from, to, db.Micros(tx.Now()))
	return n == 1, err
}

// FreezeForDebt freezes an active company until it has paid its debt. It returns false if the company is not active.
func FreezeForDebt(ctx context.Context, tx *db.Tx, companyID string) (bool, error) {
	n, err := tx.Exec(ctx, `UPDATE companies SET status = $2, for_debt = TRUE, version = version + 1, updated_at = $3
		WHERE company_id = $1 AND status = $4`, companyID, CompanyFrozen, db.Micros(tx.Now()), CompanyActive)
	return n == 1, err
}

// FrozenForDebt returns the IDs of the companies that are frozen because of a debt.
func FrozenForDebt(ctx context.Context, tx *db.Tx) ([]string, error) {
	rows, err := tx.Query(ctx, "SELECT company_id FROM companies WHERE status = $1 AND for_debt ORDER BY company_id",
		CompanyFrozen)
	return db.Collect(rows, err, func(r *db.Rows) (id string, err error) { return id, r.Scan(&id) })
}

// Thaw reactivates a company that is frozen because of a debt. It returns false if the company is not, for example
// because staff have frozen it in the meantime.
func Thaw(ctx context.Context, tx *db.Tx, companyID string) (bool, error) {
	n, err := tx.Exec(ctx, `UPDATE companies SET status = $2, for_debt = FALSE, version = version + 1, updated_at = $3
		WHERE company_id = $1 AND status = $4 AND for_debt`, companyID, CompanyActive, db.Micros(tx.Now()),
		CompanyFrozen)
	return n == 1, err
}

// FrozenCompanies returns the frozen companies, sorted by name.
func FrozenCompanies(ctx context.Context, tx *db.Tx) ([]Company, error) {
	rows, err := tx.Query(ctx, "SELECT company_id, name FROM companies WHERE status = $1 ORDER BY name, company_id",
		CompanyFrozen)
	return db.Collect(rows, err, func(r *db.Rows) (c Company, err error) { return c, r.Scan(&c.ID, &c.Name) })
}

// SetPlatform stores the platform that is connected to a company and the platform's fee in basis points, or "" and 0.
func SetPlatform(ctx context.Context, tx *db.Tx, companyID, platformID string, feeBps int64) error {
	return changed(tx.Exec(ctx, `UPDATE companies SET platform_id = $2, platform_fee_bps = $3, version = version + 1,
		updated_at = $4 WHERE company_id = $1`, companyID, platformID, feeBps, db.Micros(tx.Now())))
}

// SetCompanyDetails stores a company's name, addresses and country, or returns apierr.NotFoundErr.
func SetCompanyDetails(ctx context.Context, tx *db.Tx, c Company) error {
	return changed(tx.Exec(ctx, `UPDATE companies SET name = $2, email = $3, website = $4, country = $5,
		version = version + 1, updated_at = $6
		WHERE company_id = $1`, c.ID, c.Name, c.Email, c.Website, c.Country, db.Micros(tx.Now())))
}

// changed returns apierr.NotFoundErr if a statement succeeded but matched no row.
func changed(n int64, err error) error {
	if err == nil && n == 0 {
		return apierr.NotFoundErr
	}
	return err
}

// CloseCompany permanently closes a company's account. It returns false if the account is already closed.
func CloseCompany(ctx context.Context, tx *db.Tx, companyID string) (bool, error) {
	n, err := tx.Exec(ctx, `UPDATE companies SET status = $2, for_debt = FALSE, closed_at = $3, version = version + 1,
		updated_at = $3 WHERE company_id = $1 AND status <> $2`, companyID, CompanyClosed, db.Micros(tx.Now()))
	tx.Notify(NoticeRevoked)
	return n == 1, err
}

// CloseUser permanently closes a user's account: nobody can sign in with its address, password or authenticator. It
// returns false if the account is already closed.
func CloseUser(ctx context.Context, tx *db.Tx, userID string) (bool, error) {
	n, err := tx.Exec(ctx, `UPDATE users SET sign_in_key = '', password_hash = '', closed_at = $2, version = version + 1,
		updated_at = $2 WHERE user_id = $1 AND closed_at = 0`, userID, db.Micros(tx.Now()))
	if err != nil || n == 0 {
		return false, err
	}
	for _, statement := range []string{
		"DELETE FROM authorization_codes WHERE user_id = $1",
		"DELETE FROM device_codes WHERE user_id = $1",
	} {
		if _, err := tx.Exec(ctx, statement, userID); err != nil {
			return false, err
		}
	}
	tx.Notify(NoticeRevoked)
	return true, nil
}

// ClosedUsers returns the IDs of users whose accounts were closed by a given time and who were not erased, sorted,
// starting after the ID after.
func ClosedUsers(ctx context.Context, tx *db.Tx, until time.Time, after string, limit int) ([]string, error) {
	rows, err := tx.Query(ctx, `SELECT user_id FROM users WHERE closed_at > 0 AND closed_at <= $1
		AND user_id > $2 AND email_key <> '' ORDER BY user_id LIMIT $3`, db.Micros(until), after, int64(limit))
	return db.Collect(rows, err, func(r *db.Rows) (id string, err error) { return id, r.Scan(&id) })
}

// EraseUser deletes a user's personal data and credentials: names, addresses, phone number, date of birth, password
// and tokens. The ID, the country and the verification state remain, because the ledger and payments refer to them.
// EraseUser returns the user as it was before, or apierr.NotFoundErr.
func EraseUser(ctx context.Context, tx *db.Tx, userID string) (User, error) {
	old, err := selectUser(ctx, tx, "user_id", userID)
	if err != nil {
		return old, err
	}
	now := db.Micros(tx.Now())
	n, err := tx.Exec(ctx, `UPDATE users SET email = '', email_key = '', sign_in_key = '', password_hash = '',
		first_name = '', last_name = '', details = '', complete = FALSE, version = version + 1, updated_at = $3
		WHERE user_id = $1 AND version = $2`, userID, old.Version, now)
	if err == nil && n == 0 {
		err = db.ErrConflict
	}
	if err != nil {
		return old, err
	}
	for _, statement := range []string{
		"UPDATE company_users SET email_key = user_id WHERE user_id = $1", // stays unique without the address
		"DELETE FROM authorization_codes WHERE user_id = $1",
		"DELETE FROM device_codes WHERE user_id = $1",
	} {
		if _, err := tx.Exec(ctx, statement, userID); err != nil {
			return old, err
		}
	}
	tx.Notify(NoticeRevoked)
	_, err = tx.Exec(ctx, "UPDATE app_grants SET revoked_at = $2 WHERE user_id = $1 AND revoked_at = 0", userID, now)
	db.History(tx, "", userID, old.Version+1, "", "", "erased")
	return old, err
}

// selectApps returns the active apps of a company, or only the app with an ID if appID is not empty.
func selectApps(ctx context.Context, tx *db.Tx, companyID, appID string) ([]App, error) {
	rows, err := tx.Query(ctx, `SELECT app_id, name, client_id, secret_digest, redirect_uri, scopes, created_at, dpop
		FROM apps WHERE company_id = $1 AND (app_id = $2 OR $2 = '') AND status = 'active' ORDER BY created_at, app_id`,
		companyID, appID)
	return db.Collect(rows, err, func(r *db.Rows) (App, error) {
		a := App{CompanyID: companyID}
		var scopes string
		var created int64
		err := r.Scan(&a.ID, &a.Name, &a.ClientID, &a.secretDigest, &a.RedirectURI, &scopes, &created, &a.DPoP)
		a.Scopes, a.Created = storedScopes(scopes), db.Time(created)
		return a, err
	})
}

// lockApp locks an app until the commit, so that concurrent requests cannot exceed its maximum number of keys.
func lockApp(ctx context.Context, tx *db.Tx, companyID, appID string) error {
	return changed(tx.Exec(ctx, `UPDATE apps SET name = name
		WHERE company_id = $1 AND app_id = $2 AND status = 'active'`, companyID, appID))
}

func setSecret(ctx context.Context, tx *db.Tx, companyID, appID, digest string) error {
	return changed(tx.Exec(ctx, `UPDATE apps SET secret_digest = $3
		WHERE company_id = $1 AND app_id = $2 AND status = 'active'`, companyID, appID, digest))
}

// SetDPoP stores whether an app's tokens are valid only if they are bound to a key of the app.
func SetDPoP(ctx context.Context, tx *db.Tx, companyID, appID string, required bool) error {
	tx.Notify(NoticeRevoked)
	return changed(tx.Exec(ctx, `UPDATE apps SET dpop = $3
		WHERE company_id = $1 AND app_id = $2 AND status = 'active'`, companyID, appID, required))
}

// APIKeys returns all keys of an app, newest first, including expired and revoked keys.
func APIKeys(ctx context.Context, tx *db.Tx, companyID, appID string) ([]APIKey, error) {
	rows, err := tx.Query(ctx, `SELECT key_id, hint, created_at, expires_at, revoked_at, last_used_at
		FROM api_keys WHERE company_id = $1 AND app_id = $2 ORDER BY created_at DESC, key_id DESC`, companyID, appID)
	return db.Collect(rows, err, func(r *db.Rows) (APIKey, error) {
		k := APIKey{AppID: appID}
		var created, expires, revoked, used int64
		err := r.Scan(&k.ID, &k.Hint, &created, &expires, &revoked, &used)
		k.Created = db.Time(created)
		for to, from := range map[*time.Time]int64{&k.Expires: expires, &k.Revoked: revoked, &k.LastUsed: used} {
			if from > 0 {
				*to = db.Time(from)
			}
		}
		return k, err
	})
}

// endAPIKey sets the time at which a valid key expires. It never postpones the time.
func endAPIKey(ctx context.Context, tx *db.Tx, companyID, appID, keyID string, at time.Time) error {
	tx.Notify(NoticeRevoked)
	return changed(tx.Exec(ctx, `UPDATE api_keys
		SET expires_at = CASE WHEN expires_at = 0 OR expires_at > $4 THEN $4 ELSE expires_at END
		WHERE company_id = $1 AND app_id = $2 AND key_id = $3 AND revoked_at = 0 AND (expires_at = 0 OR expires_at > $5)`,
		companyID, appID, keyID, db.Micros(at), db.Micros(tx.Now())))
}
