package chain

import (
	"context"
	"errors"
	"fmt"

	"github.com/stipend/stipend/internal/db"
)

// Nobody is the company of addresses that were given out and forgotten.
const Nobody = "house"

// lookBack is how far below the next index addresses may lie that were given out since a backup: processes reserve indexes ahead.
const lookBack = 10 * rangeSize

// ErrOtherWallet says that a key is not that of the wallet whose addresses were given out.
var ErrOtherWallet = errors.New("chain: the addresses of this database are not those of this key")

// Forgotten prepares a database that was restored from a backup, which does not know which addresses were given out since. The
// next skip indexes of both branches stay unused, so that no address has two owners. The watch first of them, and those that
// processes had reserved and, as far as is known, not used, are watched for [Nobody]: what was paid there since the backup, or
// ever will be, is found. It says how many are watched.
func Forgotten(ctx context.Context, tx *db.Tx, chainName string, keys Deriver, skip, watch int64) (watched int, err error) {
	known, found, err := anAddress(ctx, tx, chainName)
	if err != nil {
		return 0, err
	}
	if found {
		if same, err := keys.Address(uint32(known.branch), uint32(known.index)); err != nil || same != known.address {
			return 0, ErrOtherWallet
		}
	}
	for _, branch := range []uint32{External, Change} {
		next, err := reserveIndexes(ctx, tx, chainName, branch, skip)
		if err != nil {
			return 0, err
		}
		from := max(0, next-lookBack)
		used, err := reservedSince(ctx, tx, chainName, branch, from)
		if err != nil {
			return 0, err
		}
		for i := from; i < next+watch; i++ {
			if used[i] {
				continue
			}
			a, err := keys.Address(branch, uint32(i))
			if err != nil {
				return 0, fmt.Errorf("index %d: %w", i, err)
			}
			insertAddress(tx, chainName, address{a, Nobody, "", int64(branch), i})
			watched++
		}
	}
	return watched, nil
}
