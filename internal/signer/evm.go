package signer

import (
	"context"
	"fmt"
	"math"

	"github.com/stipend/stipend/internal/chain/bitcoin"
	"github.com/stipend/stipend/internal/chain/evm"
)

// EVMRequest is a transaction on an EVM network to sign.
type EVMRequest struct {
	Chain       string           `json:"chain"`       // name of the network
	Transaction []byte           `json:"transaction"` // unsigned, of EIP-1559
	From        bitcoin.KeyPath  `json:"from"`        // key that signs
	Own         *bitcoin.KeyPath `json:"own,omitempty"`
	Reference   string           `json:"reference,omitempty"`
	Approvals   []Approval       `json:"approvals,omitempty"`
}

// SignEVM signs a transaction on an EVM network, and returns r and s. Own is the path of the recipient if it is one of
// the wallet's addresses, which the signer verifies.
func (s *Service) SignEVM(ctx context.Context, r EVMRequest) ([64]byte, error) {
	var none [64]byte
	if s.o.EVM == nil {
		return none, refuse(NotPermitted, "the signer has no keys for EVM networks")
	}
	decoded, err := evm.DecodeUnsigned(r.Transaction)
	if err != nil {
		return none, refuse(Malformed, "the transaction is not an unsigned one of EIP-1559")
	}
	t, err := s.readEVM(r, decoded)
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.alarm(t, err)
		return none, err
	}
	if err := s.permit(t, r.Approvals); err != nil {
		return none, err
	}
	return s.o.EVM.Keys.Sign(ctx, r.From, decoded.SigningHash())
}

// maxGasPrice is a price in wei above which no network has ever been.
const maxGasPrice = 1_000_000_000_000_000

// readEVM finds what a transaction spends and pays.
func (s *Service) readEVM(r EVMRequest, decoded evm.Tx) (t transaction, err error) {
	n, ok := s.o.Policy.evm[r.Chain]
	t = transaction{chain: r.Chain, id: fmt.Sprintf("0x%x", decoded.SigningHash()), native: n.Native}
	if !ok || decoded.ChainID != n.ChainID {
		return t, refuse(NotPermitted, "the policy does not permit %q with the chain id %d", r.Chain, decoded.ChainID)
	}
	from, err := s.o.EVM.Deriver.Address(r.From.Branch, r.From.Index)
	if err != nil {
		return t, refuse(Malformed, "there is no such key")
	}
	t.inputs = []string{evm.NonceOutpoint(from, decoded.Nonce).TxID}
	if decoded.Gas > math.MaxInt32 || decoded.MaxFee > maxGasPrice { // the fee must fit into 64 bits
		return t, refuse(FeeTooHigh, "the gas limit or its price is too high")
	}
	t.fee = evm.GasCost(decoded.Gas, decoded.MaxFee)
	own := ""
	if r.Own != nil {
		if own, err = s.o.EVM.Deriver.Address(r.Own.Branch, r.Own.Index); err != nil {
			return t, refuse(Malformed, "there is no such key")
		}
	}
	if a, ok := n.ParseAuthorized(decoded.Call); ok { // takes somebody else's money to one of our addresses
		if decoded.Value.Sign() != 0 || own == "" || a.To.String() != own {
			return t, refuse(NotPermitted, "the authorized transfer does not pay the wallet")
		}
		return t, nil
	}
	to, amount, ok := n.ParseTransfer(decoded.Call)
	token := amount.Asset() != n.Native
	if !ok || token && decoded.Value.Sign() != 0 || !token && len(decoded.Data) != 0 {
		return t, refuse(NotPermitted, "the policy permits transfers of known assets only")
	}
	if own != "" && to.String() == own {
		return t, nil
	}
	t.payments = []Payment{{Chain: r.Chain, Asset: amount.Asset(), Address: to.String(), Units: amount.Units(),
		Reference: r.Reference}}
	return t, nil
}
