#!/bin/sh
# Makes the *.hex beside this file, the code that deploys each contract of tokens.sol. They are committed, so that tests need no
# compiler; run this after a change. The same compiler gives the same bytes.
#
#   npm install --prefix /tmp/solc --ignore-scripts solc@0.8.28 && NODE_PATH=/tmp/solc/node_modules sh compile.sh
set -eu
cd "$(dirname "$0")"
node -e '
const fs = require("fs"), solc = require("solc");
const out = JSON.parse(solc.compile(JSON.stringify({
  language: "Solidity", sources: {"tokens.sol": {content: fs.readFileSync("tokens.sol", "utf8")}},
  settings: {evmVersion: "paris", optimizer: {enabled: true, runs: 200}, metadata: {bytecodeHash: "none"}, outputSelection: {"*": {"*": ["evm.bytecode.object"]}}},
})));
for (const e of out.errors || []) console.error(e.formattedMessage);
for (const [name, c] of Object.entries(out.contracts["tokens.sol"])) {
  if (c.evm.bytecode.object) fs.writeFileSync(name.toLowerCase() + ".hex", c.evm.bytecode.object + "\n");
}'
