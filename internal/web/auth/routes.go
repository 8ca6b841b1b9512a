package auth

import (
	"github.com/stipend/stipend/internal/oauth"
	"github.com/stipend/stipend/internal/web/ui"
)

// Routes are the pages for signing up, signing in and one's own account.
var Routes = []ui.Route{
	{Method: "GET", Path: "/{$}", Kind: ui.Plain, Access: ui.Anyone, Public: true, Handler: home},
	{Method: "GET", Path: "/robots.txt", Kind: ui.Plain, Access: ui.Anyone, Public: true, Handler: sendRobots},

	{Method: "GET", Path: "/sign-in", Access: ui.Anyone, Handler: showSignIn},
	{Method: "POST", Path: "/sign-in", Kind: ui.MultiStep, Access: ui.Anyone, Handler: signIn, FormPage: showSignIn},
	{Method: "GET", Path: "/sign-in/code", Access: ui.Anyone, Handler: showCode},
	{Method: "POST", Path: "/sign-in/code", Kind: ui.MultiStep, Access: ui.Anyone, Handler: signInCode,
		FormPage: showCode},
	{Method: "POST", Path: "/sign-in/passkey", Access: ui.Anyone, Handler: beginPasskeySignIn},
	{Method: "POST", Path: "/sign-in/passkey/answer", Kind: ui.MultiStep, Access: ui.Anyone, Handler: signInByPasskey,
		FormPage: showSignIn},
	{Method: "GET", Path: "/sign-up", Kind: ui.Plain, Access: ui.Anyone, Public: true, Handler: showSignUp},
	{Method: "POST", Path: "/sign-up", Kind: ui.MultiStep, Access: ui.Anyone, Handler: sendSignUpLink,
		FormPage: showSignUp},
	{Method: "GET", Path: "/sign-up/sent", Kind: ui.Plain, Access: ui.Anyone, Public: true, Handler: showSignUpSent},
	{Method: "GET", Path: "/sign-up/{token}", Access: ui.Anyone, Handler: showBusiness},
	{Method: "POST", Path: "/sign-up/{token}", Kind: ui.MultiStep, Access: ui.Anyone, Handler: signUp,
		FormPage: showBusiness},
	{Method: "GET", Path: "/password", Kind: ui.Plain, Access: ui.Anyone, Public: true, Handler: showReset},
	{Method: "POST", Path: "/password", Kind: ui.MultiStep, Access: ui.Anyone, Handler: sendResetLink,
		FormPage: showReset},
	{Method: "GET", Path: "/password/sent", Kind: ui.Plain, Access: ui.Anyone, Public: true, Handler: showResetSent},
	{Method: "GET", Path: "/password/{token}", Access: ui.Anyone, Handler: showNewPassword},
	{Method: "POST", Path: "/password/{token}", Kind: ui.MultiStep, Access: ui.Anyone, Handler: setPassword,
		FormPage: showNewPassword},
	{Method: "POST", Path: "/sign-out", Access: ui.SignedIn, Handler: signOut},
	{Method: "POST", Path: "/sign-out/everywhere", Access: ui.SignedIn, Handler: signOutEverywhere},
	{Method: "GET", Path: "/account", Access: ui.SignedIn, Handler: showAccount},
	{Method: "POST", Path: "/account/company", Access: ui.SignedIn, Handler: actFor},

	{Method: "GET", Path: "/account/password", Access: ui.SignedIn, Factor: ui.FreshFactor, Handler: showPassword},
	{Method: "POST", Path: "/account/password", Kind: ui.MultiStep, Access: ui.SignedIn, Factor: ui.FreshFactor,
		Handler: changePassword, FormPage: showPassword, Notice: "saved"},
	{Method: "GET", Path: "/account/proof", Access: ui.SignedIn, Handler: showProof},
	{Method: "POST", Path: "/account/proof", Kind: ui.MultiStep, Access: ui.SignedIn, Handler: checkProof,
		FormPage: showProof},
	{Method: "GET", Path: "/account/factor", Access: ui.SignedIn, Handler: showFactor},
	{Method: "POST", Path: "/account/factor/begin", Access: ui.SignedIn, Factor: ui.FreshFactor, Enrolls: true,
		Handler: beginFactor},
	{Method: "POST", Path: "/account/factor/confirm", Access: ui.SignedIn, Factor: ui.FreshFactor, Enrolls: true,
		Handler: confirmFactor, FormPage: showFactor},
	{Method: "POST", Path: "/account/factor/recovery", Access: ui.SignedIn, Factor: ui.FreshFactor,
		Handler: renewRecovery},
	{Method: "POST", Path: "/account/factor/remove", Access: ui.SignedIn, Factor: ui.FreshFactor, Handler: removeFactor,
		Notice: "removed"},

	{Method: "GET", Path: "/account/email", Access: ui.SignedIn, Handler: showEmail},
	{Method: "POST", Path: "/account/email", Access: ui.SignedIn, Factor: ui.FreshFactor, Handler: requestEmail,
		FormPage: showEmail, Notice: "email_links"},
	{Method: "GET", Path: "/email/changed", Access: ui.Anyone, Handler: showEmailChanged},
	{Method: "GET", Path: "/email/{token}", Access: ui.Anyone, Handler: showEmailLink},
	{Method: "POST", Path: "/email/{token}", Access: ui.Anyone, Handler: confirmEmail, FormPage: showEmailLink},
	{Method: "GET", Path: "/account/passkeys", Access: ui.SignedIn, Handler: showPasskeys},
	{Method: "POST", Path: "/account/passkeys", Kind: ui.MultiStep, Access: ui.SignedIn, Handler: addPasskey,
		FormPage: showPasskeys, Notice: "added"},
	{Method: "POST", Path: "/account/passkeys/begin", Access: ui.SignedIn, Factor: ui.FreshFactor, Enrolls: true,
		Handler: beginPasskey},
	{Method: "POST", Path: "/account/passkeys/{id}/rename", Access: ui.SignedIn, Handler: renamePasskey,
		Notice: "saved"},
	{Method: "POST", Path: "/account/passkeys/{id}/remove", Access: ui.SignedIn, Factor: ui.FreshFactor,
		Handler: removePasskey, Notice: "removed"},

	{Method: "GET", Path: "/account/apps", Access: ui.SignedIn, Handler: showConnected},
	{Method: "POST", Path: "/account/apps/disconnect", Access: ui.SignedIn, Handler: disconnect, Notice: "removed"},

	{Method: "GET", Path: "/authorize", Access: ui.Anyone, Handler: showConsent},
	{Method: "POST", Path: "/authorize", Access: ui.Anyone, Handler: decide},
	{Method: "GET", Path: oauth.DevicePage, Access: ui.SignedIn, Handler: showDevice},
}
