package httpapi

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/oauth"
	"github.com/stipend/stipend/internal/ratelimit"
)

// The OAuth endpoints follow RFC 6749. They are not in the route table because they also accept forms, ignore unknown
// parameters, and have a different format of errors.

type (
	oauthTokenBody struct {
		GrantType oauthGrantType `json:"grant_type"`

		Code         string `json:"code,omitempty" doc:"The authorization code, valid once and for 60 seconds."`
		RefreshToken string `json:"refresh_token,omitempty" doc:"With the grant type refresh_token. It is valid once."`
		DeviceCode   string `json:"device_code,omitempty" doc:"With the grant type of the device flow (RFC 8628)."`
		Scope        string `json:"scope,omitempty" doc:"Of a refreshed token, if not all: scopes separated by spaces."`
		Resource     string `json:"resource,omitempty" doc:"If given, a URL of this service (RFC 8707)."`
		ClientID     string `json:"client_id,omitempty" doc:"Required unless sent by HTTP Basic."`
		ClientSecret string `json:"client_secret,omitempty" doc:"Required unless sent by HTTP Basic."`
		RedirectURI  string `json:"redirect_uri,omitempty" doc:"If given, the registered one."`
		CodeVerifier string `json:"code_verifier,omitempty" minLength:"43" maxLength:"128"`
	}

	oauthToken struct {
		AccessToken  string `json:"access_token"`
		RefreshToken string `json:"refresh_token" doc:"Exchange it for new tokens, once. It expires after 90 days."`
		TokenType    string `json:"token_type" enum:"Bearer,DPoP" doc:"DPoP if the request had a DPoP proof (RFC 9449)."`
		ExpiresIn    int64  `json:"expires_in" doc:"Seconds: 3600 if a scope moves money. Tokens unused for 90 days expire."`
		Scope        string `json:"scope" doc:"Granted scopes, separated by spaces."`
		UserID       string `json:"user_id"`
		CompanyID    string `json:"company_id" doc:"Company that the token acts for; empty for the user alone."`
	}

	oauthPushBody struct {
		ClientID     string `json:"client_id,omitempty" doc:"Required unless sent by HTTP Basic."`
		ClientSecret string `json:"client_secret,omitempty" doc:"Required unless sent by HTTP Basic."`
		State        string `json:"state" doc:"Returned with the code. Make it unguessable."`
		ResponseType string `json:"response_type,omitempty" enum:"code" doc:"Always code."`
		RedirectURI  string `json:"redirect_uri,omitempty" doc:"If given, the registered one."`
		Scope        string `json:"scope,omitempty" doc:"Scopes, separated by spaces. Default: all that the app registered."`
		Challenge    string `json:"code_challenge,omitempty" doc:"SHA-256 digest of the code verifier, in base64url."`
		Method       string `json:"code_challenge_method,omitempty" enum:"S256" doc:"Method of the challenge."`
		Resource     string `json:"resource,omitempty" doc:"If given, a URL of this service (RFC 8707)."`
		Thumbprint   string `json:"dpop_jkt,omitempty" doc:"Thumbprint of the key that must exchange the code (RFC 9449)."`
	}

	oauthPushed struct {
		RequestURI string `json:"request_uri" doc:"Parameter of the authorization endpoint, with client_id."`
		ExpiresIn  int64  `json:"expires_in" doc:"Seconds."`
	}

	oauthDeviceBody struct {
		ClientID     string `json:"client_id,omitempty" doc:"Required unless sent by HTTP Basic. stipend-cli has no secret."`
		ClientSecret string `json:"client_secret,omitempty" doc:"Required unless sent by HTTP Basic."`
		Scope        string `json:"scope,omitempty" doc:"Scopes, separated by spaces. Default: all that the app registered."`
	}

	oauthDevice struct {
		DeviceCode string `json:"device_code" doc:"With which the device asks for its tokens."`
		UserCode   string `json:"user_code" doc:"The person types it." example:"WDJB-MJHT"`
		URI        string `json:"verification_uri" doc:"Page on which the person types the code."`
		Complete   string `json:"verification_uri_complete" doc:"The page with the code filled in."`
		ExpiresIn  int64  `json:"expires_in" doc:"Seconds."`
		Interval   int64  `json:"interval" doc:"Seconds to wait between two requests for the tokens."`
	}

	oauthRevokeBody struct {
		Token        string `json:"token" doc:"An access token, or a refresh token, which revokes its consent."`
		ClientID     string `json:"client_id,omitempty" doc:"Required unless sent by HTTP Basic."`
		ClientSecret string `json:"client_secret,omitempty" doc:"Required unless sent by HTTP Basic."`
	}

	oauthError struct {
		Error       oauthErrorCode `json:"error"`
		Description string         `json:"error_description,omitempty"`
	}

	oauthMetadata struct {
		Issuer                string   `json:"issuer"`
		AuthorizationEndpoint string   `json:"authorization_endpoint"`
		TokenEndpoint         string   `json:"token_endpoint"`
		RevocationEndpoint    string   `json:"revocation_endpoint"`
		DeviceEndpoint        string   `json:"device_authorization_endpoint" doc:"Begins the device flow (RFC 8628)."`
		PushEndpoint          string   `json:"pushed_authorization_request_endpoint" doc:"Takes pushed requests (RFC 9126)."`
		ServiceDocumentation  string   `json:"service_documentation"`
		ScopesSupported       []string `json:"scopes_supported"`
		ResponseTypes         []string `json:"response_types_supported"`
		ResponseModes         []string `json:"response_modes_supported"`
		GrantTypes            []string `json:"grant_types_supported"`
		TokenAuthMethods      []string `json:"token_endpoint_auth_methods_supported"`
		RevocationAuthMethods []string `json:"revocation_endpoint_auth_methods_supported"`
		ChallengeMethods      []string `json:"code_challenge_methods_supported"`
		ProofAlgorithms       []string `json:"dpop_signing_alg_values_supported" doc:"Algorithms of DPoP proofs."`
		IssParameter          bool     `json:"authorization_response_iss_parameter_supported"`
	}

	// resourceMetadata is the protected resource metadata of RFC 9728.
	resourceMetadata struct {
		Resource      string   `json:"resource" doc:"Address of the API."`
		Servers       []string `json:"authorization_servers" doc:"Issuers whose tokens the API accepts."`
		Scopes        []string `json:"scopes_supported,omitempty" doc:"The scopes. Absent for the MCP server."`
		Proofs        []string `json:"dpop_signing_alg_values_supported" doc:"Algorithms of DPoP proofs (RFC 9449)."`
		Methods       []string `json:"bearer_methods_supported" doc:"How a token is sent: in the Authorization header."`
		Documentation string   `json:"resource_documentation" doc:"Address of the documentation."`
	}
)

const (
	exchangePath = "/oauth2/token"
	revokePath   = "/oauth2/revoke"
	pushPath     = "/oauth2/par"
	devicePath   = "/oauth2/device_authorization"
	metadataPath = "/.well-known/oauth-authorization-server"
	resourcePath = "/.well-known/oauth-protected-resource"
	// AgentsPath is the path of the MCP server.
	AgentsPath = "/mcp"
	oauthLimit = 64 << 10
)

// tokenRequests returns a limiter that allows each network 30 refused OAuth requests per minute. Successful requests
// do not count, because an app refreshes the tokens of all its users from one network.
func tokenRequests() *ratelimit.Limiter { return ratelimit.New(0.5, 30) }

func (s *server) mountOAuth() {
	s.mount("POST", exchangePath, s.serveOAuth(exchangePath, s.exchange))
	s.mount("POST", revokePath, s.serveOAuth(revokePath, s.revoke))
	s.mount("POST", pushPath, s.serveOAuth(pushPath, s.push))
	s.mount("POST", devicePath, s.serveOAuth(devicePath, s.authorizeDevice))
	methods := []string{"client_secret_basic", "client_secret_post"}
	metadata, err := json.Marshal(oauthMetadata{
		Issuer: s.AuthURL, AuthorizationEndpoint: s.AuthURL + "/authorize", TokenEndpoint: s.BaseURL + exchangePath,
		RevocationEndpoint: s.BaseURL + revokePath, PushEndpoint: s.BaseURL + pushPath,
		DeviceEndpoint:       s.BaseURL + devicePath,
		ServiceDocumentation: s.BaseURL + "/docs",
		ScopesSupported:      identity.GrantableScopes().List(),
		ResponseTypes:        []string{"code"}, ResponseModes: []string{"query"},
		GrantTypes: []string{"authorization_code", "refresh_token", oauth.DeviceGrant}, TokenAuthMethods: methods,
		RevocationAuthMethods: methods,
		ChallengeMethods:      []string{"S256"}, IssParameter: true, ProofAlgorithms: oauth.ProofAlgorithms,
	})
	if err != nil {
		panic("httpapi: cannot write the OAuth metadata: " + err.Error())
	}
	s.mount("GET", metadataPath, func(w *responseWriter, _ *http.Request) { send(w, http.StatusOK, metadata) })
	s.mountResource("", identity.GrantableScopes().List())
	// Agents request all scopes that the metadata names. If it names none, they get the scopes that their app
	// registered.
	s.mountResource(AgentsPath, nil)
}

// mountResource serves the metadata of the protected resource with the given path, at the address that RFC 9728,
// section 3.1 derives from that path. The API and the MCP server accept the same tokens.
func (s *server) mountResource(path string, scopes []identity.Scope) {
	resource, err := json.Marshal(resourceMetadata{
		Resource: s.BaseURL + path, Servers: []string{s.AuthURL}, Scopes: scopes, Methods: []string{"header"},
		Proofs:        oauth.ProofAlgorithms,
		Documentation: s.BaseURL + "/docs",
	})
	if err != nil {
		panic("httpapi: cannot write the metadata of the resource: " + err.Error())
	}
	s.mount("GET", resourcePath+path, func(w *responseWriter, _ *http.Request) { send(w, http.StatusOK, resource) })
}

// provenKey is the name of the parameter that holds the thumbprint of the key of a valid DPoP proof. Only the server
// sets it: a parameter with this name from a client is deleted.
const provenKey = "proven key"

// serveOAuth decodes the parameters, identifies the client and writes the response of an OAuth endpoint.
func (s *server) serveOAuth(
	route string, do func(context.Context, *db.Tx, map[string]string) (any, *oauth.Error, error),
) func(*responseWriter, *http.Request) {
	return func(w *responseWriter, r *http.Request) {
		w.route = route
		if err := s.tokens.Allow(s.Now(), network(r), http.Header{}); err != nil {
			if f, ok := apierr.As(err); ok {
				w.Header().Set("Retry-After", retryAfter(f))
			}
			s.refuseOAuth(w, http.StatusTooManyRequests, &oauth.Error{
				Code: "rate_limited", Description: "At most 30 requests per minute are allowed from one network. Retry later.",
			})
			return
		}
		params, status, refusal := oauthParams(r)
		if refusal != nil {
			s.refuseOAuth(w, status, refusal)
			return
		}
		delete(params, provenKey)
		if route == exchangePath && r.Header["Dpop"] != nil {
			key, err := s.proofKey(r, "")
			if err != nil {
				s.refuseOAuth(w, http.StatusBadRequest, &oauth.Error{Code: "invalid_dpop_proof", Description: "The DPoP proof is " +
					"malformed, too old, already used, or made for another request."})
				return
			}
			params[provenKey] = key
		}
		var out any
		err := s.DB.Write(r.Context(), func(ctx context.Context, tx *db.Tx) (err error) {
			out, refusal, err = do(ctx, tx, params)
			return err
		})
		switch {
		case errors.Is(err, db.ErrRetryLater) || errors.Is(err, db.ErrStorage):
			w.Header().Set("Retry-After", "1")
			s.Log.Warn("requests get 503", slog.String("code", "server_error"), slog.String("error", err.Error()))
			s.refuseOAuth(w, http.StatusServiceUnavailable, &oauth.Error{
				Code: "server_error", Description: "The service is busy. Retry later.",
			})
			return
		case err != nil:
			s.Log.Error("internal error", slog.String("request_id", w.requestID), slog.String("route", route),
				slog.String("error", err.Error()))
			s.refuseOAuth(w, http.StatusInternalServerError, &oauth.Error{
				Code: "server_error", Description: "An internal error occurred. Retry later.",
			})
			return
		case refusal != nil && refusal.Code == "invalid_client":
			s.refuseOAuth(w, http.StatusUnauthorized, refusal)
			return
		case refusal != nil:
			s.refuseOAuth(w, http.StatusBadRequest, refusal)
			return
		}
		body, err := json.Marshal(out)
		if err != nil {
			s.refuse(w, err)
			return
		}
		status = http.StatusOK
		if route == pushPath {
			status = http.StatusCreated
		}
		if route != pushPath && route != devicePath { // requests to these always count: each stores a row
			s.tokens.Return(s.Now(), network(r))
		}
		send(w, status, body)
	}
}

func (s *server) refuseOAuth(w *responseWriter, status int, e *oauth.Error) {
	body, err := json.Marshal(oauthError{oauthErrorCode(e.Code), e.Description})
	if err != nil {
		s.refuse(w, err)
		return
	}
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Basic realm="oauth2", charset="UTF-8"`)
	}
	w.code = e.Code
	send(w, status, body)
}

func (s *server) exchange(ctx context.Context, tx *db.Tx, p map[string]string) (any, *oauth.Error, error) {
	t, refusal, err := oauth.Exchange(ctx, tx, s.Env, oauth.TokenRequest{
		GrantType: p["grant_type"], Code: p["code"], ClientID: p["client_id"], ClientSecret: p["client_secret"],
		RedirectURI: p["redirect_uri"], Verifier: p["code_verifier"], RefreshToken: p["refresh_token"], Scope: p["scope"],
		DeviceCode: p["device_code"], ProofKey: p[provenKey],
		Resource: p["resource"], Base: s.BaseURL,
	})
	kind := "Bearer"
	if t.Bound {
		kind = identity.ProofScheme
	}
	return oauthToken{
		t.AccessToken, t.RefreshToken, kind, int64(t.Life.Seconds()), t.Scopes.String(), t.UserID, t.CompanyID,
	}, refusal, err
}

func (s *server) authorizeDevice(ctx context.Context, tx *db.Tx, p map[string]string) (any, *oauth.Error, error) {
	d, refusal, err := oauth.Authorize(ctx, tx, p["client_id"], p["client_secret"], p["scope"])
	page := s.AuthURL + oauth.DevicePage
	return oauthDevice{d.Code, d.UserCode, page, page + "?user_code=" + d.UserCode, int64(d.Life.Seconds()),
		int64(d.Poll.Seconds())}, refusal, err
}

func (s *server) push(ctx context.Context, tx *db.Tx, p map[string]string) (any, *oauth.Error, error) {
	form := url.Values{}
	for name, value := range p {
		form.Set(name, value)
	}
	ask := oauth.ParseParams(form)
	ask.Base = s.BaseURL
	requestURI, refusal, err := oauth.Push(ctx, tx, p["client_secret"], ask)
	return oauthPushed{requestURI, int64(oauth.PushedLife.Seconds())}, refusal, err
}

func (s *server) revoke(ctx context.Context, tx *db.Tx, p map[string]string) (any, *oauth.Error, error) {
	if p["token"] == "" {
		return nil, &oauth.Error{Code: "invalid_request", Description: "The token is missing."}, nil
	}
	refusal, err := oauth.Revoke(ctx, tx, s.Env, p["client_id"], p["client_secret"], p["token"])
	return none{}, refusal, err
}

// oauthParams returns the parameters of a form or of a JSON object, including the client ID and secret.
func oauthParams(r *http.Request) (p map[string]string, status int, refusal *oauth.Error) {
	wrong := func(status int, text string) (map[string]string, int, *oauth.Error) {
		return nil, status, &oauth.Error{Code: "invalid_request", Description: text}
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, oauthLimit+1))
	switch {
	case err != nil:
		return wrong(http.StatusBadRequest, "The body could not be read.")
	case len(body) > oauthLimit:
		return wrong(http.StatusRequestEntityTooLarge, "The body is too large.")
	case len(r.Header["Authorization"]) > 1:
		return wrong(http.StatusBadRequest, "The Authorization header was sent more than once. Send it once.")
	}
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	p = map[string]string{}
	switch kind {
	case "application/x-www-form-urlencoded":
		form, err := url.ParseQuery(string(body))
		if err != nil {
			return wrong(http.StatusBadRequest, "The body is not a valid form.")
		}
		for name, values := range form {
			if len(values) > 1 {
				return wrong(http.StatusBadRequest, "A parameter was sent more than once. Send it once.")
			}
			p[name] = values[0]
		}
	case "application/json":
		var object map[string]any
		if err := json.Unmarshal(body, &object); err != nil || object == nil {
			return wrong(http.StatusBadRequest, "The body is not a JSON object, or contains a member twice.")
		}
		for name, value := range object {
			if text, ok := value.(string); ok {
				p[name] = text
			} else if value != nil && slices.Contains(oauthNames, name) {
				return wrong(http.StatusBadRequest, "The "+name+" must be a string.")
			}
		}
	default:
		return wrong(http.StatusUnsupportedMediaType, "Send the body as application/json or "+
			"application/x-www-form-urlencoded.")
	}
	scheme, credential, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if scheme == "" {
		return p, 0, nil
	}
	id, secret, ok := oauth.ParseBasic(strings.TrimSpace(credential))
	switch {
	case !strings.EqualFold(scheme, "Basic") || !ok:
		return nil, http.StatusUnauthorized, &oauth.Error{
			Code:        "invalid_client",
			Description: "The Authorization header must be Basic with the client ID and the client secret.",
		}
	case p["client_secret"] != "" || p["client_id"] != "" && p["client_id"] != id:
		return wrong(http.StatusBadRequest, "Send the client ID and secret in the header or in the body, not in both.")
	}
	p["client_id"], p["client_secret"] = id, secret
	return p, 0, nil
}

var oauthNames = []string{"grant_type", "code", "client_id", "client_secret", "redirect_uri", "code_verifier", "token",
	"refresh_token", "scope", "resource", "state", "response_type", "code_challenge", "code_challenge_method",
	"request_uri", "device_code", "dpop_jkt"}

// oauth adds the OAuth endpoints to the contract.
func (c *contract) oauth() {
	schema := func(t reflect.Type) *huma.Schema { return c.reg.Schema(t, true, schemaName(t, "")) }
	content := func(s *huma.Schema, request bool) map[string]*huma.MediaType {
		return map[string]*huma.MediaType{"application/json": {Schema: s, Example: exampleOf(c.reg, s, request)}}
	}
	add := func(op *huma.Operation, status int, ok reflect.Type, refusals ...int) {
		op.Tags, op.Security = []string{"Authorization"}, []map[string][]string{}
		for _, name := range []string{"X-Request-Id", "Api-Version"} {
			op.Parameters = append(op.Parameters, &huma.Param{Ref: "#/components/parameters/" + name})
		}
		op.Responses = map[string]*huma.Response{strconv.Itoa(status): {Description: "Success.",
			Headers: headers(route{scope: public}, status), Content: content(schema(ok), false)}}
		for _, status := range refusals {
			op.Responses[strconv.Itoa(status)] = &huma.Response{
				Description: http.StatusText(status) + ", in the form of RFC 6749.", Headers: headers(route{scope: public}, status),
				Content: content(schema(reflect.TypeFor[oauthError]()), false),
			}
		}
		// Requests that are rejected before they reach these endpoints get the API's common error format.
		op.Responses["421"] = c.refusals(route{scope: public}, http.StatusMisdirectedRequest, []string{errMisdirected.Code})
		if len(refusals) == 0 {
			op.Responses["400"] = c.refusals(route{scope: public}, http.StatusBadRequest, []string{errVersion.Code})
		}
		c.add(op)
	}
	post := func(id, path, summary, description string, status int, in, out reflect.Type) {
		s := schema(in)
		c.reg.SchemaFromRef(s.Ref).AdditionalProperties = true
		body := content(s, true)
		body["application/x-www-form-urlencoded"] = body["application/json"]
		op := &huma.Operation{
			OperationID: id, Method: http.MethodPost, Path: path, Summary: summary, Description: description,
			RequestBody: &huma.RequestBody{
				Required: true, Content: body, Description: "At most 64 KiB. Unknown parameters are ignored.",
			},
		}
		add(op, status, out, 400, 401, 413, 415, 429, 500, 503)
	}
	post("exchange-code", exchangePath, "Exchange an authorization code or a refresh token for tokens",
		"Authenticate with client_id and client_secret, in the body or by HTTP Basic. A code is valid once and for 60 "+
			"seconds. A refresh token is valid once: each response has a new one, and a refreshed token has the rights that "+
			"the user has then. A second use of either is rejected and revokes the user's consent with all its tokens.",
		http.StatusOK, reflect.TypeFor[oauthTokenBody](), reflect.TypeFor[oauthToken]())
	post("revoke-token", revokePath, "Revoke a token",
		"Follows RFC 7009: an unknown token, or one of another client, is a success without effect.",
		http.StatusOK, reflect.TypeFor[oauthRevokeBody](), reflect.TypeFor[none]())
	post("push-authorization", pushPath, "Push an authorization request",
		"Follows RFC 9126: stores the parameters of an authorization request, which then are not in the user's browser.",
		http.StatusCreated, reflect.TypeFor[oauthPushBody](), reflect.TypeFor[oauthPushed]())
	post("authorize-device", devicePath, "Begin the sign-in of a device",
		"Follows RFC 8628: returns a code that a person types at verification_uri, on any device with a browser. Meanwhile, "+
			"ask the token endpoint for the tokens every interval seconds, with device_code and the grant type "+
			"urn:ietf:params:oauth:grant-type:device_code. It answers authorization_pending, slow_down (wait five seconds "+
			"longer), access_denied, expired_token, or with the tokens, once.",
		http.StatusOK, reflect.TypeFor[oauthDeviceBody](), reflect.TypeFor[oauthDevice]())
	add(&huma.Operation{
		OperationID: "resource-metadata", Method: http.MethodGet, Path: resourcePath,
		Summary: "Get the metadata of the protected resource", Description: "Follows RFC 9728.",
	}, http.StatusOK, reflect.TypeFor[resourceMetadata]())
	add(&huma.Operation{
		OperationID: "mcp-resource-metadata", Method: http.MethodGet, Path: resourcePath + AgentsPath,
		Summary:     "Get the metadata of the MCP server",
		Description: "Follows RFC 9728. Agents learn from it who issues tokens.",
	}, http.StatusOK, reflect.TypeFor[resourceMetadata]())
	add(&huma.Operation{
		OperationID: "oauth-metadata", Method: http.MethodGet, Path: metadataPath,
		Summary: "Get the metadata of the authorization server", Description: "Follows RFC 8414.",
	}, http.StatusOK, reflect.TypeFor[oauthMetadata]())
}
