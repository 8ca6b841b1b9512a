package httpapi

import (
	"net/http"
	"sync"

	"github.com/stipend/stipend/internal/mcp"
)

// agentLimit is the maximum size of an agent's message in bytes, enough for a payroll of 1,000 payees. A message is
// read only after its credential was accepted.
const agentLimit = 256 << 10

// mountAgents serves the API's operations to agents as MCP tools. The tools are generated from the contract when the
// first agent connects.
func (s *server) mountAgents() {
	agents := sync.OnceValues(func() (*mcp.Server, error) {
		return mcp.New(mcp.Options{
			Contract: s.contract().json, API: mcp.Within(s), BaseURL: s.BaseURL,
			MetadataURL: s.BaseURL + resourcePath + AgentsPath, Version: Version, MaxBody: agentLimit,
		})
	})
	s.mount("POST", AgentsPath, func(w *responseWriter, r *http.Request) {
		w.route = AgentsPath
		server, err := agents()
		if err != nil {
			s.refuse(w, err)
			return
		}
		if r.Header.Get("X-Request-Id") != w.requestID { // API requests that a message causes carry the message's ID
			r.Header.Set("X-Request-Id", w.requestID)
		}
		server.ServeHTTP(w, s.withProof(r))
	})
}
