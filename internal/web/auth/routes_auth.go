package auth

import (
	"github.com/stipend/stipend/internal/web/ui"
)

// Routes are the pages for signing up, signing in and one's own account.
var Routes = []ui.Route{
	{Method: "GET", Path: "/{$}", Kind: ui.Plain, Access: ui.Anyone, Handler: home},

	{Method: "GET", Path: "/sign-in", Kind: ui.Read, Access: ui.Anyone, Private: true, Handler: showSignIn},
	{Method: "POST", Path: "/sign-in", Kind: ui.MultiStep, Access: ui.Anyone, Private: true, Handler: signIn, FormPage: showSignIn},
	{Method: "GET", Path: "/sign-in/code", Kind: ui.Read, Access: ui.Anyone, Private: true, Handler: showCode},
	{Method: "POST", Path: "/sign-in/code", Kind: ui.MultiStep, Access: ui.Anyone, Private: true, Handler: signInCode, FormPage: showCode},
	{Method: "POST", Path: "/sign-in/passkey", Kind: ui.Write, Access: ui.Anyone, Private: true, Handler: beginPasskeySignIn},
	{Method: "POST", Path: "/sign-in/passkey/answer", Kind: ui.MultiStep, Access: ui.Anyone, Private: true, Handler: signInByPasskey, FormPage: showSignIn},
	{Method: "GET", Path: "/sign-up", Kind: ui.Plain, Access: ui.Anyone, Handler: showSignUp},
	{Method: "POST", Path: "/sign-up", Kind: ui.MultiStep, Access: ui.Anyone, Private: true, Handler: askSignUp, FormPage: showSignUp},
	{Method: "GET", Path: "/sign-up/sent", Kind: ui.Plain, Access: ui.Anyone, Handler: showSignUpSent},
	{Method: "GET", Path: "/sign-up/{token}", Kind: ui.Read, Access: ui.Anyone, Private: true, Handler: showBusiness},
	{Method: "POST", Path: "/sign-up/{token}", Kind: ui.MultiStep, Access: ui.Anyone, Private: true, Handler: signUp, FormPage: showBusiness},
	{Method: "GET", Path: "/password", Kind: ui.Plain, Access: ui.Anyone, Handler: showReset},
	{Method: "POST", Path: "/password", Kind: ui.MultiStep, Access: ui.Anyone, Private: true, Handler: askReset, FormPage: showReset},
	{Method: "GET", Path: "/password/sent", Kind: ui.Plain, Access: ui.Anyone, Handler: showResetSent},
	{Method: "GET", Path: "/password/{token}", Kind: ui.Read, Access: ui.Anyone, Private: true, Handler: showNewPassword},
	{Method: "POST", Path: "/password/{token}", Kind: ui.MultiStep, Access: ui.Anyone, Private: true, Handler: setPassword, FormPage: showNewPassword},
	{Method: "POST", Path: "/sign-out", Kind: ui.Write, Access: ui.SignedIn, Private: true, Handler: signOut},
	{Method: "POST", Path: "/sign-out/everywhere", Kind: ui.Write, Access: ui.SignedIn, Private: true, Handler: signOutEverywhere},
	{Method: "GET", Path: "/account", Kind: ui.Read, Access: ui.SignedIn, Private: true, Handler: showAccount},
	{Method: "POST", Path: "/account/company", Kind: ui.Write, Access: ui.SignedIn, Private: true, Handler: actFor},

	{Method: "GET", Path: "/account/password", Kind: ui.Read, Access: ui.SignedIn, Factor: ui.FreshFactor, Private: true, Handler: showPassword},
	{Method: "POST", Path: "/account/password", Kind: ui.MultiStep, Access: ui.SignedIn, Factor: ui.FreshFactor, Private: true, Handler: changePassword, FormPage: showPassword},
	{Method: "GET", Path: "/account/proof", Kind: ui.Read, Access: ui.SignedIn, Private: true, Handler: showProof},
	{Method: "POST", Path: "/account/proof", Kind: ui.MultiStep, Access: ui.SignedIn, Private: true, Handler: checkProof, FormPage: showProof},
	{Method: "GET", Path: "/account/factor", Kind: ui.Read, Access: ui.SignedIn, Private: true, Handler: showFactor},
	{Method: "POST", Path: "/account/factor/begin", Kind: ui.Write, Access: ui.SignedIn, Factor: ui.FreshFactor, Enrolls: true, Private: true, Handler: beginFactor},
	{Method: "POST", Path: "/account/factor/confirm", Kind: ui.Write, Access: ui.SignedIn, Factor: ui.FreshFactor, Enrolls: true, Private: true, Handler: confirmFactor, FormPage: showFactor},
	{Method: "POST", Path: "/account/factor/recovery", Kind: ui.Write, Access: ui.SignedIn, Factor: ui.FreshFactor, Private: true, Handler: renewRecovery},
	{Method: "POST", Path: "/account/factor/remove", Kind: ui.Write, Access: ui.SignedIn, Factor: ui.FreshFactor, Private: true, Handler: removeFactor},

	{Method: "GET", Path: "/account/passkeys", Kind: ui.Read, Access: ui.SignedIn, Private: true, Handler: showPasskeys},
	{Method: "POST", Path: "/account/passkeys", Kind: ui.MultiStep, Access: ui.SignedIn, Private: true, Handler: addPasskey, FormPage: showPasskeys},
	{Method: "POST", Path: "/account/passkeys/begin", Kind: ui.Write, Access: ui.SignedIn, Factor: ui.FreshFactor, Enrolls: true, Private: true, Handler: beginPasskey},
	{Method: "POST", Path: "/account/passkeys/{id}/rename", Kind: ui.Write, Access: ui.SignedIn, Private: true, Handler: renamePasskey},
	{Method: "POST", Path: "/account/passkeys/{id}/remove", Kind: ui.Write, Access: ui.SignedIn, Factor: ui.FreshFactor, Private: true, Handler: removePasskey},

	{Method: "GET", Path: "/account/apps", Kind: ui.Read, Access: ui.SignedIn, Private: true, Handler: showConnected},
	{Method: "POST", Path: "/account/apps/disconnect", Kind: ui.Write, Access: ui.SignedIn, Private: true, Handler: disconnect},

	{Method: "GET", Path: "/authorize", Kind: ui.Read, Access: ui.Anyone, Private: true, Handler: showConsent},
	{Method: "POST", Path: "/authorize", Kind: ui.Write, Access: ui.Anyone, Private: true, Handler: decide},
}
