// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.28;

// Tokens for tests on a private network. Anybody may mint: they are worth nothing.

abstract contract Ledger {
    uint8 public constant decimals = 6;
    mapping(address => uint256) public balanceOf;
    mapping(address => bool) public blocked;

    event Transfer(address indexed from, address indexed to, uint256 value);

    function mint(address to, uint256 value) external {
        balanceOf[to] += value;
        emit Transfer(address(0), to, value);
    }

    // block has every transfer to an account fail, as the issuers of stablecoins can.
    function block_(address who, bool on) external {
        blocked[who] = on;
    }

    function move(address to, uint256 value) internal {
        require(!blocked[to], "blocked");
        require(balanceOf[msg.sender] >= value, "transfer amount exceeds balance");
        balanceOf[msg.sender] -= value;
        balanceOf[to] += value;
        emit Transfer(msg.sender, to, value);
    }
}

// Token is a token as ERC-20 has it.
contract Token is Ledger {
    function transfer(address to, uint256 value) external returns (bool) {
        move(to, value);
        return true;
    }
}

// QuietToken answers nothing to a transfer, as the oldest large token does.
contract QuietToken is Ledger {
    function transfer(address to, uint256 value) external {
        move(to, value);
    }
}

// PoliteToken answers "no" where others fail: the transaction stands, and nothing has moved.
contract PoliteToken is Ledger {
    function transfer(address to, uint256 value) external returns (bool) {
        if (blocked[to] || balanceOf[msg.sender] < value) return false;
        move(to, value);
        return true;
    }
}

// Payer pays many at once out of what it holds.
contract Payer {
    function pay(Token token, address[] calldata to, uint256[] calldata values) external {
        for (uint256 i = 0; i < to.length; i++) {
            (bool ok, ) = address(token).call(abi.encodeCall(Token.transfer, (to[i], values[i])));
            require(ok, "a payment failed");
        }
    }
}
