package company

import (
	"context"
	"slices"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/notification"
	"github.com/stipend/stipend/internal/web/ui"
)

// notificationsPage lists the member's notifications, and the kinds that are mailed.
type notificationsPage struct {
	All    []notificationItem
	Unread bool
	Mailed []ui.Option // the kinds; those that are mailed are selected
	Pager  ui.Pager
}

type notificationItem struct {
	Path, Text, At string
	Read           bool
}

func showNotifications(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	all, total, err := notification.List(ctx, tx, by(c), c.PageNumber(), ui.PerPage)
	if err != nil {
		return ui.View{}, err
	}
	unmailed, err := notification.Unmailed(ctx, tx, c.Session.User.ID)
	if err != nil {
		return ui.View{}, err
	}
	p := notificationsPage{Unread: c.Unread > 0, Pager: c.Pager(c.Page(), total)}
	for _, n := range all {
		p.All = append(p.All, notificationItem{Path: c.URL(ui.NotificationsPath + "/" + n.ID), Text: notificationText(c, n),
			At: c.FormatTime(n.Created), Read: n.Read})
	}
	for _, kind := range notification.Kinds {
		p.Mailed = append(p.Mailed, ui.Option{Value: string(kind), Label: c.Text("notification.kind." + string(kind)),
			Selected: !slices.Contains(unmailed, kind)})
	}
	return ui.View{Template: "notifications", Title: c.Text("notification.title"), Data: p}, nil
}

// notificationText returns what a notification says.
func notificationText(c *ui.Request, n notification.Notification) string {
	if n.Kind == notification.Verification {
		return c.Text("notification.verification." + n.Detail)
	}
	return c.Text("notification."+string(n.Kind), c.FormatMoney(n.Amount))
}

// openNotification marks a notification as read and redirects to the page about its object.
func openNotification(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	n, err := notification.Open(ctx, tx, by(c), c.HTTP.PathValue("id"))
	return ui.View{Redirect: n.Path()}, err
}

func readNotifications(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	return ui.View{Redirect: ui.NotificationsPath}, notification.ReadAll(ctx, tx, by(c))
}

// chooseMails stores the kinds that the member wants by mail.
func chooseMails(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	var wanted []notification.Kind
	for _, kind := range c.Form["mail"] {
		wanted = append(wanted, notification.Kind(kind))
	}
	return ui.View{Redirect: ui.NotificationsPath}, notification.Mail(ctx, tx, c.Session.User.ID, wanted)
}
