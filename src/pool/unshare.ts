/**
 * Owns a root of its own for a program where bubblewrap is not installed, by the tools of util-linux.
 * It must never leave the program a capability in the namespace in which that root was made: it could undo it.
 */

/** A path outside, and where the program finds it; both real. */
export type Seen = readonly [source: string, path: string];

/** A folder that every Linux has, in which nothing lies that a reader needs: the new root is mounted over it. */
const ROOT = '/sys';

/**
 * Takes the number of pairs, the bytes of `/tmp`, the pairs, and the program with its arguments. `/tmp` comes before what is
 * seen, which may lie in it. What is seen is bound read-only; then the program
 * runs in a second user namespace, where it has no capability and these mounts are locked.
 */
const BUILD = `set -e
R=${ROOT}
mount -t tmpfs -o size=1m,mode=755 tmpfs $R
left=$1; size=$2; shift 2
mkdir -p $R/proc $R/tmp $R/dev
mount -t proc proc $R/proc
mount -t tmpfs -o "size=$size,mode=777" tmpfs $R/tmp
for name in null zero random urandom; do
  : > $R/dev/$name
  mount --bind /dev/$name $R/dev/$name
done
while [ "$left" -gt 0 ]; do
  from=$1; to=$R$2; shift 2; left=$((left - 1))
  if [ -d "$from" ]; then mkdir -p "$to"; else mkdir -p "\${to%/*}"; : > "$to"; fi
  mount --bind "$from" "$to"
  mount -o remount,bind,ro "$to"
done
mount -o remount,bind,ro $R
exec unshare --user --mount --root=$R --wd=/ -- "$@"`;

/** @param scratchBytes of `/tmp`, the only folder that takes writes. */
export function unshareLine(
  unshare: string,
  seen: readonly Seen[],
  scratchBytes: number,
): readonly string[] {
  const namespaces = ['--user', '--map-root-user', '--mount', '--net', '--pid', '--ipc', '--uts'];
  const build = ['sh', '-c', BUILD, 'root', `${seen.length}`, `${scratchBytes}`];
  return [unshare, ...namespaces, '--fork', '--kill-child', '--', ...build, ...seen.flat()];
}
