package chain

import (
	"context"
	"errors"
	"fmt"

	"github.com/stipend/stipend/internal/db"
)

// UnassignedCompany is the company of addresses that were assigned after the backup from which the database was
// restored. Their owners are unknown.
const UnassignedCompany = "operator"

// recoveryMargin is the number of indexes below the next one that may have been unused at the time of the backup,
// because processes reserve ranges in advance.
const recoveryMargin = 10 * rangeSize

// ErrOtherWallet is returned if the assigned addresses were not derived from the given key.
var ErrOtherWallet = errors.New("chain: the addresses in this database were not derived from this key")

// RecoverAddresses prepares a database that was restored from a backup, and so lacks the addresses that were assigned
// afterwards. It skips the next indexes of both branches, so that no address is assigned twice. It watches the first
// `watch` of the skipped indexes, and older ones that were reserved but not assigned, for [UnassignedCompany], so that
// payments to them are found. It returns the number of indexes watched. If chains are given, they are EVM networks
// that share the wallet, see [NewPool]; their change branch has only one address.
func RecoverAddresses(
	ctx context.Context, tx *db.Tx, wallet string, keys Deriver, skip, watch int64, chains ...string,
) (watched int, err error) {
	branches := []uint32{External}
	if len(chains) == 0 {
		chains, branches = []string{wallet}, []uint32{External, Change}
	}
	for _, c := range chains {
		assigned, found, err := firstAddress(ctx, tx, c)
		if err != nil {
			return 0, err
		}
		if found {
			derived, err := keys.Address(uint32(assigned.branch), uint32(assigned.index))
			if err != nil || derived != assigned.address {
				return 0, ErrOtherWallet
			}
		}
	}
	id, err := keyID(keys)
	if err != nil {
		return 0, err
	}
	for _, branch := range branches {
		next, err := reserveIndexes(ctx, tx, wallet, id, branch, skip)
		if err != nil {
			return 0, err
		}
		n, err := watchUnassigned(ctx, tx, keys, branch, max(0, next-recoveryMargin), next+watch, chains)
		if err != nil {
			return 0, err
		}
		watched += n
	}
	return watched, nil
}

// watchUnassigned watches the unassigned addresses of a range of indexes on each chain. It returns the number of
// indexes.
func watchUnassigned(
	ctx context.Context, tx *db.Tx, keys Deriver, branch uint32, from, end int64, chains []string,
) (watched int, err error) {
	used := map[string]map[int64]bool{}
	for _, c := range chains {
		if used[c], err = usedIndexes(ctx, tx, c, branch, from); err != nil {
			return 0, err
		}
	}
	for i := from; i < end; i++ {
		a, err := keys.Address(branch, uint32(i))
		if err != nil {
			return 0, fmt.Errorf("index %d: %w", i, err)
		}
		unassigned := false
		for _, c := range chains {
			if !used[c][i] {
				insertAddress(tx, c, address{a, UnassignedCompany, "", int64(branch), i})
				unassigned = true
			}
		}
		if unassigned {
			watched++
		}
	}
	return watched, nil
}

// ChainsInUse returns those of the chains that have an assigned address.
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
