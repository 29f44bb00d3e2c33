/**
 * Owns taking away what packages bring for other machines: addons of other platforms and Node versions, code for browsers.
 * It must never remove anything that is not inside a folder `node_modules` and named by the table here.
 */
import { readdir, realpath, rm, stat } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { basename, join, sep } from 'node:path';

export interface Machine {
  readonly platform: string;
  readonly arch: string;
  /** Version of Node's binary interface: `process.versions.modules`. */
  readonly abi: string;
}

export interface Freed {
  readonly package: string;
  readonly files: number;
  readonly bytes: number;
}

const MODULES = 'node_modules';

/** Says of a file, by its path inside the package, whether this machine can do without it. */
type IsSpare = (path: string, machine: Machine) => boolean;

/** npm brings some of these to x64 too, for who emulates the other. */
const engines = /^(linux|mac|win)-(x64|arm64|armv7l|riscv64)\b/;
const enginePlatforms: Readonly<Record<string, string>> = { darwin: 'mac', win32: 'win' };

const spares: Readonly<Record<string, IsSpare>> = {
  'uWebSockets.js': (path, { platform, arch, abi }) =>
    /^uws_[a-z0-9]+_[a-z0-9]+_\d+\.node$/.test(path) &&
    path !== `uws_${platform}_${arch}_${abi}.node`,
  // The same programs as text, for browsers; Node reads the `.wasm` files beside them.
  'tesseract.js-core': (path) => /^tesseract-core[a-z-]*\.wasm\.js$/.test(path),
};

/** The folders in which this package's own dependencies are looked for, the nearest first. */
export function dependencyFolders(): string[] {
  const folders = createRequire(import.meta.url).resolve.paths('any-package') ?? [];
  // Node's old folders of all users are no concern of this package.
  return folders.filter((folder) => basename(folder) === MODULES);
}

export const thisMachine: Machine = {
  platform: process.platform,
  arch: process.arch,
  abi: process.versions.modules,
};

/**
 * @param folders each a `node_modules`; of a package that is in several, the first one is meant.
 * @throws Error for a folder of another name, before anything is removed.
 */
export async function prune(folders: readonly string[], machine: Machine): Promise<Freed[]> {
  const stranger = folders.find((folder) => basename(folder) !== MODULES);
  if (stranger !== undefined) throw new Error(`${stranger} is no node_modules: nothing is removed`);
  const freed: Freed[] = [];
  for (const [name, isSpare] of Object.entries(spares)) {
    const place = await firstWith(folders, name);
    if (place !== null)
      freed.push(await prunePackage(place, name, (path) => isSpare(path, machine)));
  }
  freed.push(...(await pruneEngines(folders, machine)));
  return freed.filter(({ files }) => files > 0);
}

async function pruneEngines(folders: readonly string[], machine: Machine): Promise<Freed[]> {
  const scope = await firstWith(folders, '@node-llama-cpp');
  if (scope === null) return [];
  const { platform, arch } = machine;
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
