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
        moveFrom(msg.sender, to, value);
    }

    function moveFrom(address from, address to, uint256 value) internal {
        require(!blocked[to], "blocked");
        require(balanceOf[from] >= value, "transfer amount exceeds balance");
        balanceOf[from] -= value;
        balanceOf[to] += value;
        emit Transfer(from, to, value);
    }
}

// Token is a token as ERC-20 has it, with the authorized transfers of EIP-3009.
contract Token is Ledger {
    string public constant name = "USD Coin";
    string public constant version = "2";
    mapping(address => mapping(bytes32 => bool)) public authorizationState;

    event AuthorizationUsed(address indexed authorizer, bytes32 indexed nonce);

    function DOMAIN_SEPARATOR() public view returns (bytes32) {
        return keccak256(abi.encode(
            keccak256("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"),
            keccak256(bytes(name)), keccak256(bytes(version)), block.chainid, address(this)
        ));
    }

    function transferWithAuthorization(
        address from, address to, uint256 value, uint256 validAfter, uint256 validBefore, bytes32 nonce,
        uint8 v, bytes32 r, bytes32 s
    ) external {
        require(block.timestamp > validAfter, "authorization is not yet valid");
        require(block.timestamp < validBefore, "authorization is expired");
        require(!authorizationState[from][nonce], "authorization is used or canceled");
        bytes32 digest = keccak256(abi.encodePacked("\x19\x01", DOMAIN_SEPARATOR(), keccak256(abi.encode(
            keccak256("TransferWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)"),
            from, to, value, validAfter, validBefore, nonce
        ))));
        require(uint256(s) <= 0x7FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF5D576E7357A4501DDFE92F46681B20A0, "invalid signature");
        address signer = ecrecover(digest, v, r, s);
        require(signer != address(0) && signer == from, "invalid signature");
        authorizationState[from][nonce] = true;
        emit AuthorizationUsed(from, nonce);
        moveFrom(from, to, value);
    }

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
