/**
 * Owns the removal of files that packages hold for others: addons for other platforms and Node versions, code for browsers.
 * It must never remove a file outside of a folder `node_modules`, or one that the table here does not name.
 */
import { readdir, realpath, rm, stat } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { basename, join, sep } from 'node:path';

export interface Platform {
  readonly platform: string;
  readonly arch: string;
  /** Version of Node's binary interface, `process.versions.modules`. */
  readonly abi: string;
}

export interface Freed {
  readonly package: string;
  readonly files: number;
  readonly bytes: number;
}

const MODULES = 'node_modules';

/** Whether this machine does not need a file of a package. */
type IsSpare = (path: string, target: Platform) => boolean;

/** On x64, npm installs some packages for other architectures too, for emulators. */
const engines = /^(linux|mac|win)-(x64|arm64|armv7l|riscv64)\b/;
const enginePlatforms: Readonly<Record<string, string>> = { darwin: 'mac', win32: 'win' };

const spares: Readonly<Record<string, IsSpare>> = {
  'uWebSockets.js': (path, { platform, arch, abi }) =>
    /^uws_[a-z0-9]+_[a-z0-9]+_\d+\.node$/.test(path) &&
    path !== `uws_${platform}_${arch}_${abi}.node`,
  // These are for browsers; Node reads the `.wasm` files beside them.
  'tesseract.js-core': (path) => /^tesseract-core[a-z-]*\.wasm\.js$/.test(path),
};

/** The folders that Node searches for the dependencies of this package, the nearest first. */
export function dependencyFolders(): string[] {
  const folders = createRequire(import.meta.url).resolve.paths('any-package') ?? [];
  // Without Node's legacy folders, which belong to the user.
  return folders.filter((folder) => basename(folder) === MODULES);
}

export const thisPlatform: Platform = {
  platform: process.platform,
  arch: process.arch,
  abi: process.versions.modules,
};

/**
 * @param folders each a `node_modules`; a package that is in several of them is taken from the first.
 * @throws Error for a folder of another name, before anything is removed.
 */
export async function prune(folders: readonly string[], target: Platform): Promise<Freed[]> {
  const other = folders.find((folder) => basename(folder) !== MODULES);
  if (other !== undefined) throw new Error(`${other} is no node_modules: nothing is removed`);
  const freed: Freed[] = [];
  for (const [name, isSpare] of Object.entries(spares)) {
    const place = await firstWith(folders, name);
    if (place !== null)
      freed.push(await prunePackage(place, name, (path) => isSpare(path, target)));
  }
  freed.push(...(await pruneEngines(folders, target)));
  return freed.filter(({ files }) => files > 0);
}

async function pruneEngines(folders: readonly string[], target: Platform): Promise<Freed[]> {
  const scope = await firstWith(folders, '@node-llama-cpp');
  if (scope === null) return [];
  const { platform, arch } = target;
  const own = `${enginePlatforms[platform] ?? platform}-${arch}`;
  const others = (await readdir(scope)).filter((name) => engines.exec(name)?.[0] !== own);
  const isBinary = (path: string) => path.startsWith('bins');
  return await Promise.all(
    others
      .filter((name) => engines.test(name))
      .map((name) => prunePackage(join(scope, name), `@node-llama-cpp/${name}`, isBinary)),
  );
}

async function prunePackage(
  folder: string,
  name: string,
  isSpare: (path: string) => boolean,
): Promise<Freed> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  let files = 0;
  let bytes = 0;
  for (const entry of entries.filter((each) => each.isFile())) {
    const path = join(entry.parentPath, entry.name);
    if (!isSpare(path.slice(folder.length + 1))) continue;
    bytes += (await stat(path)).size;
    files += 1;
    await rm(path);
  }
  return { package: name, files, bytes };
}

/** @throws Error for a package that is a link to a folder elsewhere, such as a checkout of its source. */
async function firstWith(folders: readonly string[], name: string): Promise<string | null> {
  for (const folder of folders) {
    const place = await realpath(join(folder, name)).catch(() => null);
    if (place === null) continue;
    if (place.split(sep).includes(MODULES)) return place;
    throw new Error(`${name} is linked to ${place}, outside of ${MODULES}: it is left as it is`);
  }
  return null;
}
