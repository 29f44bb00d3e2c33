#!/usr/bin/env bash
# Runs this checkout on Debian 13 with a Node of your choice, whatever this machine runs. The prebuilt addon of
# uWebSockets.js for Node 22 and 24 needs glibc 2.38, which Debian 12 does not have and Debian 13 does.
#
#   bench/deploy/debian13.sh FOLDER NODE [NAME…]
#
# FOLDER is where the Debian root is made, and is used again when it is there. NODE is a version such as 24 or 22.23.3.
# Each NAME keeps the test files whose path contains it; without any, all tests run. The last step starts the service
# with the echo engine and asks it one question. MODELS names a folder with the weights, for tests of the real engine.
#
# It needs root, Linux, debootstrap, npm and tar. It changes nothing outside of FOLDER.
set -euo pipefail
root=$(realpath -m "${1:?the folder for the Debian root}")
version=${2:?the version of Node}
shift 2
project=$(cd "$(dirname "$0")/../.." && pwd)
case $(uname -m) in
  x86_64) arch=x64 ;;
  aarch64) arch=arm64 ;;
  *) echo "no prebuilt Node for $(uname -m)" >&2 && exit 1 ;;
esac

[ -e "$root/etc/debian_version" ] || debootstrap --variant=minbase trixie "$root"

# Node and npm come as npm packages, each unpacked into a folder of its own.
unpack() {
  rm -rf "$root/opt/$2"
  mkdir -p "$root/opt/$2"
  (cd "$root/opt" && tar -xzf "$(npm pack --silent "$1" | tail -n 1)" -C "$2" --strip-components=1 && rm -f ./*.tgz)
}
unpack "node-linux-$arch@$version" node
unpack npm@11 npm
chmod +x "$root/opt/node/bin/node"
mkdir -p "$root/usr/local/bin"
ln -sf /opt/node/bin/node "$root/usr/local/bin/node"
for tool in npm npx; do
  printf '#!/bin/sh\nexec /usr/local/bin/node /opt/npm/bin/%s-cli.js "$@"\n' "$tool" >"$root/usr/local/bin/$tool"
  chmod +x "$root/usr/local/bin/$tool"
done

# The packages are installed from out here, where npm is set up. None has an install script that must run.
mkdir -p "$root/opt/preface"
find "$root/opt/preface" -mindepth 1 -maxdepth 1 ! -name node_modules -exec rm -rf {} +
git -C "$project" archive HEAD | tar -x -C "$root/opt/preface"
(cd "$root/opt/preface" && npm install --no-save --prefer-offline)

models=root/.cache/preface/models
unmount() { for at in proc dev "$models"; do umount -l "$root/$at" 2>/dev/null || true; done; }
trap unmount EXIT
unmount
mount -t proc proc "$root/proc"
mount --bind /dev "$root/dev"
mkdir -p "$root/$models"
[ -z "${MODELS:-}" ] || mount --bind "$MODELS" "$root/$models"
cp /etc/resolv.conf "$root/etc/resolv.conf" 2>/dev/null || true

inside() {
  chroot "$root" /usr/bin/env -i PATH=/usr/local/bin:/usr/bin:/bin HOME=/root LANG=C.UTF-8 \
    sh -ec "cd /opt/preface; $1"
}
inside 'echo "Node $(node --version), glibc $(ldd --version | head -n 1 | sed "s/.* //")"'
inside 'npm run --silent build'
inside 'PREFACE_ENGINE=echo PREFACE_PORT=0 node dist/src/cli.js doctor'
inside "node dist/test/run.js $*"
inside '
  export PREFACE_API_KEYS=alice:sk-debian13-0123456789 PREFACE_DATA_DIR=$(mktemp -d)
  node dist/src/cli.js serve --engine echo --port 8790 >/tmp/serve.log 2>&1 & service=$!
  trap "kill $service; cat /tmp/serve.log" EXIT
  node --input-type=module -e "
    const headers = { authorization: \"Bearer sk-debian13-0123456789\", \"content-type\": \"application/json\" };
    const body = JSON.stringify({ model: \"svc-v1-8k\", messages: [{ role: \"user\", content: \"hello\" }] });
    for (let tries = 0; ; tries += 1) {
      const asked = await fetch(\"http://127.0.0.1:8790/v1/chat/completions\", { method: \"POST\", headers, body }).catch(() => null);
      if (asked?.ok) { console.log(await asked.text()); break; }
      if (tries === 50) throw new Error(asked ? await asked.text() : \"no answer\");
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
  "'
