package ui_test

import (
	"bytes"
	"context"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/ratelimit"
	"github.com/stipend/stipend/internal/web/company"
	"github.com/stipend/stipend/internal/web/pagetest"
	"github.com/stipend/stipend/internal/web/ui"
)

// TestLargeFormsWaitForMemory checks that a large form waits for the shared memory budget and is then rejected, and
// that small forms pass.
func TestLargeFormsWaitForMemory(t *testing.T) {
	bodies := ratelimit.NewBodyBudget(8<<20, 8<<20, time.Millisecond)
	h := pagetest.OpenSite(t, &pagetest.Site{T: t}, ui.Deps{DB: pagetest.SQLite(t), Env: identity.Sandbox, Bodies: bodies},
		ui.Route{
			Method: "POST", Path: "/test", Kind: ui.MultiStep, Access: ui.Anyone, MaxBody: company.ImageFormLimit,
			Handler: func(_ context.Context, _ *db.Tx, c *ui.Request) (ui.View, error) {
				text, err := c.Picture("image")
				return ui.View{Redirect: "/?" + strconv.Itoa(len(text))}, err
			},
		})
	post := func(size int) (status int, to string) {
		t.Helper()
		var form bytes.Buffer
		w := multipart.NewWriter(&form)
		part, err := w.CreateFormFile("image", "page.png")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := part.Write(make([]byte, size)); err != nil || w.Close() != nil {
			t.Fatal(err)
		}
		got := h.Do("POST", "/test", form.String(), "Content-Type", w.FormDataContentType(), "Sec-Fetch-Site", "same-origin")
		if got.Status == http.StatusServiceUnavailable &&
			(!strings.Contains(got.Text, "<code>retry_later</code>") || got.Header.Get("Retry-After") == "") {
			t.Errorf("%v\n%s", got.Header, got.Text)
		}
		return got.Status, got.Header.Get("Location")
	}
	elsewhere := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/api/other", strings.NewReader(""))
	elsewhere.ContentLength = 6 << 20
	leave, ok := bodies.Acquire(httptest.NewRecorder(), elsewhere, h.Now, 16<<20)
	if !ok {
		t.Fatal("the budget is exhausted at the start")
	}
	if status, _ := post(3 << 20); status != 503 {
		t.Errorf("%d without free memory", status)
	}
	if status, to := post(1 << 20); status != 303 || to != "/?1398104" {
		t.Errorf("a small form: %d to %q", status, to)
	}
	leave()
	for range 4 { // each releases its memory
		if status, to := post(3 << 20); status != 303 || to != "/?4194304" {
			t.Errorf("%d to %q", status, to)
		}
	}
}
