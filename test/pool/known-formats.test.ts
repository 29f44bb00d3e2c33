/** Owns the proof that a refusal names what it was given. */
import t from 'tap';
import { formatNameOf } from '../../src/pool/known-formats.js';

t.test('formats that nothing reads are named by their first bytes', async (t) => {
  const named = (text: string) => formatNameOf(Buffer.from(text, 'latin1'));
  t.equal(named('Rar!\x1a\x07\x01\0'), 'a RAR archive');
  t.equal(named(`${'\0'.repeat(257)}ustar\x0000`), 'a tar archive');
  t.equal(named('\0\0\0\x18ftypmp42'), 'a film or a sound');
  t.equal(named('RIFF\x10\0\0\0WAVE'), 'a sound');
  t.equal(named('\x01\x02\x03'), null);
});
