/**
 * Owns the proof that a document which takes over its reader gets nothing by asking for the text of pictures, and that a
 * picture which takes over the program that recognises it meets the walls of the system.
 */
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { systemClock } from '../../src/clock.js';
import { ExtractionPool } from '../../src/pool/extraction.js';
import type { PictureProgram } from '../../src/pool/picture-run.js';
import {
  choice,
  emptyPageOf,
  fakeProgram,
  hocrOf,
  shellQuoted,
} from '../support/picture-programs.js';
import { until } from '../support/until.js';
import { usualWalls } from '../support/walls.js';

t.setTimeout(300_000);

const asking = new URL('../support/extractor-asking.js', import.meta.url).href;
const folder = mkdtempSync(join(tmpdir(), 'preface-asking-'));
t.teardown(() => rmSync(folder, { recursive: true, force: true }));
// Where the service's own file modes do not help: every user of the machine may read these files.
chmodSync(folder, 0o755);
const data = join(folder, 'data');
mkdirSync(data);
const records = join(data, 'records.mdb');
writeFileSync(records, 'of another user');
process.env.PREFACE_ADMIN_KEY = 'sk-secret';
t.teardown(() => delete process.env.PREFACE_ADMIN_KEY);

const walls = await usualWalls([asking], []);
const held = walls.standing.includes('namespaces') && walls.standing.includes('resource limits');
const skip = held ? false : 'no walls of the system can be built here';

function open(t: Test, pictureProgram: PictureProgram | null): ExtractionPool {
  const pool = new ExtractionPool({
    processes: 1,
    extractors: [asking],
    languages: [],
    walls,
    pictureProgram,
    clock: systemClock,
    log: (line) => t.comment(line),
  });
  t.teardown(() => pool.close());
  return pool;
}

let count = 0;
async function read(pool: ExtractionPool, way: string): Promise<string> {
  const [source, target] = [join(folder, `${count}.source`), join(folder, `${count++}.json`)];
  writeFileSync(source, way);
  const result = await pool.extract({ owner: 'u', source, filename: 'a', target });
  return result.type === 'refused' ? result.reason : JSON.parse(readFileSync(target, 'utf8'));
}

const NONSENSE = 'the reader spoke nonsense';
const shown = `printf '%s' '${shellQuoted(hocrOf('read'))}'`;

t.test('a reader that asks for what is no picture is ended', { skip }, async (t) => {
  const { program } = await choice({}, fakeProgram(t, shown).machine);
  if (program === null) throw new Error('the fake program was not taken');
  let started = 0;
  const counting: PictureProgram = {
    env: program.env,
    command(layout) {
      started += 1;
      return program.command(layout);
    },
  };
  const pool = open(t, counting);
  const odd = ['short', 'long', 'empty', 'wide', 'large', 'negative', 'fraction', 'words'];
  for (const way of [...odd, 'option', 'nothing']) t.equal(await read(pool, way), NONSENSE, way);
  t.equal(started, 0, 'and no program is started');
  for (const way of ['two', 'thousand']) t.equal(await read(pool, way), NONSENSE, way);
  t.ok(started <= 2, `one program a reader: ${started}`);
  started = 0;
  t.equal(await read(pool, 'many'), Array(20).fill('read').join(' '), 'one after the other');
  t.equal(started, 1, 'all by one program');
  t.equal(await read(pool, 'forgotten'), 'not awaited');
  t.equal(await read(pool, 'sound'), 'read', 'the next document is read');
});

t.test('where there is no program, none may be asked for', async (t) => {
  const pool = open(t, null);
  t.equal(await read(pool, 'sound'), 'there is no program');
  t.equal(await read(pool, 'two'), NONSENSE);
});

t.test('30 million values in a frame of a reader take no memory of the service', async (t) => {
  const pool = open(t, null);
  await read(pool, 'sound');
  const kilobytes = () => process.resourceUsage().maxRSS;
  const before = kilobytes();
  t.equal(await read(pool, 'lists'), NONSENSE);
  const grown = kilobytes() - before;
  t.ok(grown < 200_000, `${grown} KB`);
  t.equal(await read(pool, 'sound'), 'there is no program', 'the next document is read');
});

/** A program of Node that tries to get out, and says as its text what came of it. */
function waysOut(port: number, unixPath: string, made: string): string {
  return `
const fs = require('node:fs'), net = require('node:net'), child = require('node:child_process');
const said = [];
const tried = (way, deed) => { try { deed(); said.push(way + '-open'); } catch { said.push(way + '-closed'); } };
const must = (is) => { if (!is) throw new Error('no'); };
const met = (way, options) => new Promise((done) => {
  try {
    net.connect(options).on('connect', () => done(way + '-open')).on('error', () => done(way + '-closed'));
  } catch { done(way + '-closed'); }
});
tried('records', () => fs.readFileSync(${JSON.stringify(records)}));
tried('passwords', () => fs.readFileSync('/etc/passwd'));
tried('made', () => fs.writeFileSync(${JSON.stringify(made)}, 'out'));
tried('picture', () => fs.writeSync(3, 'out'));
tried('picture-again', () => fs.openSync('/proc/self/fd/3', 'r+'));
tried('empty', () => fs.writeSync(5, 'out'));
tried('scratch', () => fs.writeFileSync('/tmp/x', 'out'));
tried('root', () => fs.writeFileSync('/x', 'out'));
tried('spawn', () => must(child.spawnSync('/bin/sh', ['-c', 'echo']).status === 0));
tried('environment', () => must(fs.readFileSync('/proc/${process.pid}/environ')));
tried('kill', () => process.kill(${process.pid}, 0));
tried('others', () => must(fs.readdirSync('/proc').filter((name) => +name > 0 && +name !== process.pid)
  .some((pid) => { try { return fs.readFileSync('/proc/' + pid + '/environ', 'utf8').includes('PREFACE'); } catch { return false; } })));
tried('key', () => must(process.env.PREFACE_ADMIN_KEY));
tried('user', () => must(process.getuid() !== 65534));
if (!process.env.OUTSIDE) tried('memory', () => { const all = []; for (let at = 0; at < 24; at += 1) all.push(Buffer.alloc(64 << 20, 1)); });
Promise.all([met('tcp', { port: ${port}, host: '127.0.0.1' }), met('unix', { path: ${JSON.stringify(unixPath)} })])
  .then((both) => {
    const output = ${JSON.stringify(hocrOf('SAID') + emptyPageOf(2))};
    fs.writeSync(1, output.replaceAll('SAID', [...said, ...both].join(' ')));
    process.exit();
  });
`;
}

const runs = spawnSync('prlimit', ['--version']).status === 0;

t.test('the program is held by the walls of readers', { skip: skip || !runs }, async (t) => {
  const met: string[] = [];
  const [unixPath, made] = [join(folder, 'socket'), join(folder, 'made')];
  const tcp = createServer(() => met.push('tcp')).listen(0, '127.0.0.1');
  const unix = createServer(() => met.push('unix')).listen(unixPath);
  await Promise.all([once(tcp, 'listening'), once(unix, 'listening')]);
  chmodSync(unixPath, 0o777);
  t.teardown(() => {
    tcp.close();
    unix.close();
  });
  const { port } = tcp.address() as AddressInfo;
  const source = shellQuoted(waysOut(port, unixPath, made));
  const fake = fakeProgram(t, `exec '${process.execPath}' -e '${source}'`);
  const env = { OUTSIDE: '1', PREFACE_ADMIN_KEY: 'sk-secret' };
  const shownFile = join(folder, 'shown');
  writeFileSync(shownFile, 'a picture');
  const { stdout } = spawnSync(fake.file, ['-'], { input: `${shownFile}\n`, env });
  for (const way of ['records', 'made', 'spawn', 'environment', 'key', 'tcp', 'unix'])
    t.match(`${stdout}`, `${way}-open`, 'outside of walls it gets out');
  await until(() => met.length === 2);
  met.length = 0;
  rmSync(made);
  const { program, text } = await choice({}, fake.machine);
  t.match(text, /recognised by/);
  const said = (await read(open(t, program), 'sound')).split(' ');
  t.comment(said.join(' '));
  t.equal(said.length, 17, 'each way was tried');
  // What ends the program says nothing, and so is closed too.
  for (const way of said) t.match(way, /-closed$/);
  t.same(met, []);
  t.notOk(existsSync(made));
});
