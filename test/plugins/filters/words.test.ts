/**
 * Terms and patterns: what counts as the same word, what a pattern may be, and that nothing of a match is ever shown.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import words from '../../../plugins/filters/words/index.js';
import { limits } from '../../../src/limits/index.js';
import type { Filter } from '../../../src/plugin/contract.js';
import { cut, filterSuite } from '../../../src/plugin/test/filter.js';
import {
  type Random,
  randomText,
  seededRandom,
  testSeed,
} from '../../../src/plugin/test/random-text.js';
import slow from '../../support/filter-slow.js';
import { temporaryFolder } from '../../support/service.js';

const folder = temporaryFolder(t);
let files = 0;

function fileOf(rules: string): string {
  files += 1;
  const file = join(folder, `terms-${files}.txt`);
  writeFileSync(file, rules);
  return file;
}

const open = (rules: string) => words.open({ file: fileOf(rules) });

filterSuite(t, {
  name: 'filter-words',
  plugin: words,
  options: { file: fileOf('# a list\npoison ivy\nCafé\nхолера\n毒药\n/bomb(s|ing)?\\b/\n') },
  rejected: ['poison ivy', 'POISON\n\tIvy', 'cafe\u0301', 'ХОЛЕРА', '毒药', 'bombs', 'bo\u200bmb'],
  allowed: ['poison in ivy league', 'the cafeteria 😀', 'холерик', '毒 药', 'bombastic', 'plain'],
});

filterSuite(t, {
  name: 'a filter that takes its time',
  plugin: slow,
  options: { file: null },
  rejected: ['poison', 'poisonous'],
  allowed: ['poiso n', 'plain words', 'p'],
});

async function verdict(filter: Filter, text: string): Promise<string> {
  const said = await filter.check([{ role: 'user', text }], new AbortController().signal);
  return said.type === 'allowed' ? 'allowed' : said.rule;
}

t.test('one word in its many spellings', async (t) => {
  const filter = await open('Straße\n\nΣίσυφος\nfile\nnaïve\n한국\n#off\n\\#on\n');
  const same = ['STRASSE', 'straſſe', 'ΣΊΣΥΦΟΣ', 'σίσυφοσ', 'ﬁle', 'ＦＩＬＥ', 'fi\u00adle'];
  const marks = ['nai\u0308ve', 'NAÏVE', 'na\u200bïve', '\u1112\u1161\u11ab국', '#ON'];
  for (const text of [...same, ...marks]) t.match(await verdict(filter, text), /^line \d/, text);
  for (const text of ['strasser', 'files', 'profile', 'naive', 'nai\u0308ve\u0301', 'off', 'on']) {
    t.equal(await verdict(filter, text), 'allowed', text);
  }
});

t.test('words have bounds, and scripts without blanks have none', async (t) => {
  const filter = await open('cat\n毒\nか\n!!!\n');
  for (const text of ['cat', 'a cat.', '(cat)', 'cat\ncat', '中毒中', 'あか', 'no!!!', 'cat毒']) {
    t.not(await verdict(filter, text), 'allowed', text);
  }
  for (const text of ['cats', 'concat', 'cat_1', 'cat2', 'cat\u0301', 'が', '!!']) {
    t.equal(await verdict(filter, text), 'allowed', text);
  }
  t.equal(await verdict(filter, 'so\n!!!'), 'line 4', 'the rule is the line in the file');
});

t.test('patterns match what they say', async (t) => {
  const filter = await open(
    ['/\\b\\d{4}[- ]?\\d{4}\\b/', '/(?:ab|ac){2,3}x/', '/É[^a-z]ß/', '/[x-z]\\p{Lu}?\\.q/'].join(
      '\n',
    ),
  );
  for (const text of ['1234-5678', 'no 12345678!', 'abacx', 'ACABABX', 'e\u0301!SS', 'y.q']) {
    t.not(await verdict(filter, text), 'allowed', text);
  }
  for (const text of ['x12345678', '123-4567', 'abx', 'é.s', 'abadx', 'yq']) {
    t.equal(await verdict(filter, text), 'allowed', text);
  }
});

t.test('what cannot be followed to an end is refused, and the line is named', async (t) => {
  const refused: readonly (readonly [string, RegExp])[] = [
    ['/a*/', /line 1: the pattern has a\*, which has no longest match/],
    ['ok\n/a.+b/', /line 2: the pattern has \.\+/],
    ['/(a)\\1/', /\\1, which is not allowed/],
    ['/(?=a)b/', /which is not allowed: only characters/],
    ['/^a/', /which is not allowed/],
    ['/a?/', /could match nothing at all/],
    ['/(a{200}){2}/', /can match more than 256 characters/],
    ['/(?:a{0}){1000000000}b/', /a very long one/],
    ['/(a{1,100}b?){1}/\n'.repeat(200), /all patterns together are too large/],
    ['/[é]/', /no single letter/],
    ['/(/', /cannot be read/],
    ['x'.repeat(257), /the term has 257 characters, at most 256/],
    ['\u200b', /nothing that could be seen/],
    ['# nothing\n\n', /no term and no pattern/],
  ];
  for (const [rules, message] of refused) {
    await t.rejects(open(rules), { message }, rules.slice(0, 40));
  }
  await t.rejects(words.open({ file: null }), /words=FILE/);
  await t.rejects(words.open({ file: join(folder, 'absent') }), /ENOENT/);
});

// ------------------------------------------------------------ random texts

const alphabet = ['a', 'b', 'A', 'é', 'e', '\u0301', ' ', '\n', '\u200b', '中', '.', '😀', '1'];
const terms = ['ab', 'a b', 'abé', 'b1', '中a', 'a.b', 'eé', 'baba'];
const patterns = ['a[b1]{2}', '(?:e|中){2,3}1', '\\.{2}'];

/** Another way to the same answer: the whole text folded at once, and the engine's own regular expressions. */
function isRejected(text: string): boolean {
  const folded = plain(text);
  const letter = '[\\p{L}\\p{N}_]';
  const unspaced = '[\\p{sc=Han}]';
  const bound = (behind: string, ahead: string) =>
    `(?!\\p{M})(?:(?<!${behind}\\p{M}*)|(?<=${unspaced}\\p{M}*)|(?!${ahead})|(?=${unspaced}))`;
  const whole = terms.map((term) => {
    const escaped = plain(term).replace(/[.]/g, '\\.');
    return `${bound(letter, letter)}${escaped}${bound(letter, letter)}`;
  });
  return [...whole, ...patterns].some((each) => new RegExp(each, 'su').test(folded));
}

function plain(text: string): string {
  const cased = [...text.normalize('NFKD').replace(/\u200b/gu, '')];
  return cased
    .map((each) => each.toUpperCase().toLowerCase())
    .join('')
    .normalize('NFKD')
    .replace(/\s+/gu, ' ');
}

t.test('cut at random places, a match is found and never shown', async (t) => {
  const seed = testSeed();
  const random = seededRandom(seed);
  const filter = await open([...terms, ...patterns.map((each) => `/${each}/`)].join('\n'));
  let found = 0;
  for (let round = 0; round < 6_000; round += 1) {
    const text = letters(random);
    const expected = isRejected(text);
    found += expected ? 1 : 0;
    const whole = (await verdict(filter, text)) !== 'allowed';
    const wrong = follow(filter, cut(random, text), expected);
    if (whole === expected && wrong === null) continue;
    t.fail(`seed ${seed}: ${JSON.stringify(text)} expected ${expected}, got ${whole}, ${wrong}`);
    break;
  }
  t.ok(found > 600 && found < 5_400, `${found} of 6000 texts had a match; seed ${seed}`);
});

function letters(random: Random): string {
  return Array.from({ length: random(14) }, () => alphabet[random(alphabet.length)]).join('');
}

/** What is wrong with how a text was shown; null for nothing. */
function follow(filter: Filter, parts: readonly string[], expected: boolean): string | null {
  const stream = filter.open('');
  let [text, shown] = ['', 0];
  for (const part of parts) {
    text += part;
    const step = stream.push(part);
    if (step instanceof Promise) return 'takes its time';
    if (step.type === 'rejected') return expected ? null : 'rejected on the way';
    shown = step.length;
    // Cut here the reader sees a text that ends here.
    if (isRejected(text.slice(0, shown))) return `shows ${JSON.stringify(text.slice(0, shown))}`;
    const held = text.length - shown;
    if (held > limits.filterMatchLengthMax) return `holds ${held} back`;
  }
  const end = stream.end();
  if (end instanceof Promise) return 'takes its time';
  return (end.type === 'rejected') === expected ? null : 'ends with another verdict';
}

t.test('held back is at most what may become the longest match', async (t) => {
  const seed = testSeed();
  const random = seededRandom(seed);
  const filter = await open('abcabd\nxyz q\n/\\bk[a-c]{3,9}!/');
  const longest = 11;
  for (let round = 0; round < 300; round += 1) {
    const text = Array.from({ length: 200 }, () => 'abcdk xyzq'[random(10)]).join('');
    const stream = filter.open('');
    let length = 0;
    for (const part of text) {
      const step = stream.push(part);
      length += 1;
      if (step instanceof Promise || step.type === 'rejected') break;
      if (length - step.length > longest) t.fail(`seed ${seed}: ${length - step.length} held`);
    }
  }
  const quiet = filter.open('');
  t.same(quiet.push('hello there '), { type: 'show', length: 12 }, 'nothing where nothing begins');
  t.same(quiet.push('we go to abc'), { type: 'show', length: 21 }, 'from where something begins');
  t.pass(`seed ${seed}`);
});

t.test('blanks and invisible characters stretch a match only so far', async (t) => {
  const filter = await open('bad word\n');
  const stream = filter.open('');
  t.match(stream.push(`bad${' '.repeat(500)}`), { type: 'show', length: 0 });
  t.match(stream.push(`${'\u200b'.repeat(2_000)}`), { type: 'show' });
  const step = stream.push('word x');
  if (step instanceof Promise || step.type === 'rejected') t.fail('too far apart to be one term');
  else t.equal(step.length, 2_509, 'let go');
  t.equal(await verdict(filter, `bad${' '.repeat(500)}word`), 'line 1');
});

t.test('no text makes it slow, and a long one lets others have their turn', async (t) => {
  const filter = await open(
    [`${'a'.repeat(200)}b`, '毒'.repeat(200), '/(?:a|a|a){50,200}b/', '/(?:.{0,9}x){1,9}y/'].join(
      '\n',
    ),
  );
  const random = seededRandom(testSeed());
  const prose = randomText(random, 4_000).slice(0, 15_000);
  const cost = async (text: string) => {
    const before = process.cpuUsage();
    await verdict(filter, text);
    const { user, system } = process.cpuUsage(before);
    return (user + system) / text.length;
  };
  await cost(prose);
  for (const text of ['a', '毒', 'ax', '\u0301', ' ', 'x']) {
    const each = await cost(text.repeat(6_000 / text.length));
    // Some hundred states a character are the bound of these rules; going back in the text would have none.
    t.ok(each < 200, `${JSON.stringify(text)}: ${each.toFixed(2)} µs a character`);
  }
  let turns = 0;
  const timer = setInterval(() => {
    turns += 1;
  }, 0);
  await verdict(await open('cat\n'), 'word '.repeat(200_000));
  clearInterval(timer);
  t.ok(turns > 5, `${turns} turns meanwhile`);
});

t.test('who waits no more ends the check', async (t) => {
  const filter = await open('cat\n');
  const abort = new AbortController();
  const checked = filter.check([{ role: 'user', text: 'x '.repeat(500_000) }], abort.signal);
  abort.abort();
  await t.rejects(Promise.resolve(checked));
});

t.test('a text that costs every pattern much lets others have their turn', async (t) => {
  // Each character visits some thousand states: without pauses this text stopped everybody for seconds.
  const rules = Array.from({ length: 40 }, (_, at) => `/(a?b?){120}x${at % 10}/`).join('\n');
  const filter = await open(rules);
  let turns = 0;
  let done = false;
  const counting = (async () => {
    for (; !done; turns += 1) await new Promise((resolve) => setImmediate(resolve));
  })();
  t.equal(await verdict(filter, 'ab'.repeat(200)), 'allowed');
  done = true;
  await counting;
  t.ok(turns > 20, `${turns} turns of others`);
});
