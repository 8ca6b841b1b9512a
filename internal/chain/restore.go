package chain

import (
	"context"
	"errors"
	"fmt"

	"github.com/stipend/stipend/internal/db"
)

// UnassignedCompany is the company of addresses that were given out and forgotten.
const UnassignedCompany = "operator"

// lookBack is how far below the next index addresses may lie that were given out since a backup: processes reserve indexes ahead.
const recoveryMargin = 10 * rangeSize

// ErrOtherWallet says that a key is not that of the wallet whose addresses were given out.
var ErrOtherWallet = errors.New("chain: the addresses of this database are not those of this key")

// RecoverAddresses prepares a database that was restored from a backup, which does not know which addresses were given out since. The
// next skip indexes stay unused, of both branches, so that no address has two owners. The watch first of them, and those that
// processes had reserved and, as far as is known, not used, are watched for [UnassignedCompany]: what was paid there since the backup, or
// ever will be, is found. It says how many are watched. With chains named, the wallet is theirs together, networks of accounts, which
// have one address of the other branch; see [NewPool].
func RecoverAddresses(ctx context.Context, tx *db.Tx, wallet string, keys Deriver, skip, watch int64, chains ...string) (watched int, err error) {
	branches := []uint32{External}
	if len(chains) == 0 {
		chains, branches = []string{wallet}, []uint32{External, Change}
	}
	for _, c := range chains {
		known, found, err := firstAddress(ctx, tx, c)
		if err != nil {
			return 0, err
		}
		if found {
			if same, err := keys.Address(uint32(known.branch), uint32(known.index)); err != nil || same != known.address {
				return 0, ErrOtherWallet
			}
		}
	}
	name, err := keyID(keys)
	if err != nil {
		return 0, err
	}
	for _, branch := range branches {
		next, err := reserveIndexes(ctx, tx, wallet, name, branch, skip)
		if err != nil {
			return 0, err
		}
		from := max(0, next-recoveryMargin)
		used := map[string]map[int64]bool{}
		for _, c := range chains {
			if used[c], err = usedIndexes(ctx, tx, c, branch, from); err != nil {
				return 0, err
			}
		}
		for i := from; i < next+watch; i++ {
			a, err := keys.Address(branch, uint32(i))
			if err != nil {
				return 0, fmt.Errorf("index %d: %w", i, err)
			}
			fresh := false
			for _, c := range chains {
				if !used[c][i] {
					insertAddress(tx, c, address{a, UnassignedCompany, "", int64(branch), i})
					fresh = true
				}
			}
			if fresh {
				watched++
			}
		}
	}
	return watched, nil
}

// ChainsInUse are those of some chains whose addresses were given out.
func ChainsInUse(ctx context.Context, tx *db.Tx, chains []string) (used []string, err error) {
	for _, c := range chains {
		_, found, err := firstAddress(ctx, tx, c)
		if err != nil {
			return nil, err
		}
		if found {
			used = append(used, c)
		}
	}
	return used, nil
}
