/**
 * Owns a disk that refuses one write of this process, as if it were full at that moment: files, and the records' database.
 * It must never refuse a read, nor a write of another process.
 */
import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { join } from 'node:path';
import type { Test } from 'tap';
import { temporaryFolder } from './service.js';

type Members = Record<string, unknown>;
type Act = (this: unknown, ...args: unknown[]) => unknown;

const full = () =>
  Object.assign(new Error('ENOSPC: no space left on device, write'), { code: 'ENOSPC' });

/** LMDB tells the reason in a second promise. */
function fullCommit(): Promise<never> {
  const commitError = Promise.reject(new Error('No space left on device'));
  commitError.catch(() => {});
  return Promise.reject(Object.assign(new Error('Commit failed'), { commitError }));
}

export class FullDisk {
  /** Each write since `begin`: what was called, and from where in the service. */
  readonly sites: string[] = [];
  /** Whether the write to be refused has come. */
  refused = false;
  #refuse: { readonly site: string; left: number } | null = null;

  static async open(t: Test): Promise<FullDisk> {
    const disk = new FullDisk();
    disk.#watch(t, fs, ['writeSync', 'ftruncateSync', 'mkdirSync']);
    disk.#watch(t, fs.promises, ['rename', 'link', 'mkdir', 'writeFile', 'copyFile']);
    disk.#watchOpen(t);
    const handle = await fs.promises.open(join(temporaryFolder(t), 'any'), 'w');
    disk.#watch(t, Object.getPrototypeOf(handle) as object, ['write', 'writev', 'sync']);
    await handle.close();
    disk.#watchStores(t);
    syncBuiltinESMExports();
    t.teardown(() => syncBuiltinESMExports());
    return disk;
  }

  /** @param nth occurrence of the site, from 0, whose write is refused; without a site none is. */
  begin(site: string | null = null, nth = 0): void {
    this.sites.length = 0;
    this.refused = false;
    this.#refuse = site === null ? null : { site, left: nth };
  }

  end(): void {
    this.#refuse = null;
  }

  #watch(t: Test, owner: object, names: readonly string[], refusal: () => unknown = fail): void {
    const members = owner as Members;
    for (const name of names) {
      const act = members[name] as Act;
      const isRefused = () => this.#isRefused(name);
      members[name] = function (this: unknown, ...args: unknown[]) {
        return isRefused() ? refusal() : act.apply(this, args);
      };
      t.teardown(() => {
        members[name] = act;
      });
    }
  }

  /** LMDB makes a class for each file it opens, and gives it its methods by `Object.assign`. */
  #watchStores(t: Test): void {
    const { assign } = Object;
    const isStore = (part: unknown) =>
      typeof part === 'object' && part !== null && 'ifNoExists' in part;
    Object.assign = (target: object, ...parts: unknown[]) => {
      const made: unknown = assign(target, ...parts);
      if (parts.some(isStore)) {
        this.#watch(t, target, ['batch', 'ifVersion', 'ifNoExists'], fullCommit);
        this.#watch(t, target, ['transactionSync']);
      }
      return made;
    };
    t.teardown(() => {
      Object.assign = assign;
    });
  }

  /** Of the files that are opened only those to be written need room. */
  #watchOpen(t: Test): void {
    for (const [owner, name] of [
      [fs, 'openSync'],
      [fs.promises, 'open'],
    ] as const) {
      const members = owner as unknown as Members;
      const act = members[name] as Act;
      const isRefused = (flags: unknown) => writes(flags) && this.#isRefused(name);
      members[name] = function (this: unknown, ...args: unknown[]) {
        return isRefused(args[1]) ? fail() : act.apply(this, args);
      };
      t.teardown(() => {
        members[name] = act;
      });
    }
  }

  #isRefused(name: string): boolean {
    const site = siteOf(name);
    if (site === null) return false;
    this.sites.push(site);
    const refuse = this.#refuse;
    if (refuse?.site !== site) return false;
    refuse.left -= 1;
    if (refuse.left >= 0) return false;
    this.#refuse = null;
    this.refused = true;
    return true;
  }
}

/** Both for who awaits it and for who calls it: a promise that rejects is not what a synchronous call returns. */
function fail(): never {
  throw full();
}

function writes(flags: unknown): boolean {
  if (typeof flags === 'number') return (flags & (fs.constants.O_WRONLY | fs.constants.O_RDWR)) > 0;
  return typeof flags === 'string' && flags !== 'r';
}

/** The function of the service that writes; null: a write of the test itself. */
function siteOf(name: string): string | null {
  const frames = new Error('site').stack?.split('\n') ?? [];
  // Built or mapped to its source.
  const place = frames.map((line) => /\/src\/(\S+?:\d+):\d+\)?$/.exec(line)?.[1]).find(Boolean);
  return place === undefined ? null : `${name} in ${place}`;
}
