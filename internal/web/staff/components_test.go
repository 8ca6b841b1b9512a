package staff_test

import (
	"testing"

	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/web/pagetest"
	"github.com/stipend/stipend/internal/web/staff"
	"github.com/stipend/stipend/internal/web/webtest"
)

func TestComponentsAreShownInASandboxOnly(t *testing.T) {
	x := pagetest.NewFixture(t, pagetest.SQLite(t), "admin")
	got := webtest.NewVisitor(t, x.URL).Get(staff.ComponentsPath)
	for _, want := range []string{"Every component of the pages", `class="badge"`, `aria-invalid="true"`,
		`class="progress"`, `class="toast"`, "payroll.state", "#send"} {
		if got.Status != 200 || !got.Contains(want) {
			t.Errorf("status %d, no %s in\n%s", got.Status, want, got.Text)
		}
	}
	h := pagetest.Open(t, pagetest.SQLite(t), identity.Production)
	if got := h.Do("GET", staff.ComponentsPath, ""); got.Status != 404 {
		t.Errorf("in production: status %d", got.Status)
	}
}

func TestComponentsInABrowser(t *testing.T) {
	x := pagetest.NewFixture(t, pagetest.SQLite(t), "admin")
	b := webtest.Start(t)
	b.Check(x.URL + staff.ComponentsPath)
	b.Check(x.URL + staff.ComponentsPath + "?lang=he")
}
