package screening

import (
	"context"
	"encoding/json"

	"github.com/stipend/stipend/internal/db"
)

const settingInUse = "screening.lists"

// SetInUse stores the lists against which the workers screen, for commands and metrics.
func SetInUse(ctx context.Context, tx *db.Tx, lists []Status) error {
	text, err := json.Marshal(lists)
	if err != nil {
		return err
	}
	return db.SetSetting(ctx, tx, settingInUse, string(text))
}

// InUse returns the lists against which the workers screen, or none before the first worker has started.
func InUse(ctx context.Context, tx *db.Tx) (lists []Status, err error) {
	text, err := db.Setting(ctx, tx, settingInUse)
	if err != nil || text == "" {
		return nil, err
	}
	return lists, json.Unmarshal([]byte(text), &lists)
}
