import { framed } from './sound-request.ts'
import type { Wound } from './wound.ts'

/** Requests that lie about where they end, or are no HTTP at all. */
export const framingWounds: Readonly<Record<string, Wound>> = {
  'length too long': unfinished((lines, body) =>
    framed([...lines, `content-length: ${body.length + 10}`], body),
  ),
  'length too short': lying((lines, body) =>
    framed([...lines, `content-length: ${Math.max(0, body.length - 5)}`], body),
  ),
  'length odd': lying((lines, body, pick) =>
    framed(
      [...lines, `content-length: ${pick(['-1', 'abc', '1e3', '0x10', '99999999999999999999', '+5', ''])}`],
      body,
    ),
  ),
  'length huge': lying((lines, body) => framed([...lines, 'content-length: 9000000000'], body)),
  'two lengths': lying((lines, body) =>
    framed([...lines, `content-length: ${body.length}`, `content-length: ${body.length + 1}`], body),
  ),
  'length and chunks': lying((lines, body) =>
    framed([...lines, `content-length: ${body.length}`, 'transfer-encoding: chunked'], chunked(body)),
  ),
  'good chunks': lying((lines, body) => framed([...lines, 'transfer-encoding: chunked'], chunked(body))),
  'bad chunks': unfinished((lines, body, pick) =>
    framed(
      [
        ...lines,
        `transfer-encoding: ${pick(['chunked', 'chunked, chunked', 'gzip, chunked', 'identity', 'xchunked'])}`,
      ],
      Buffer.concat([Buffer.from(pick(['zz\r\n', '-1\r\n', 'fffffffffffffffff\r\n', '5\r\nab'])), body]),
    ),
  ),
  'no host': lying((lines, body) =>
    framed([...lines.filter((line) => !line.startsWith('host:')), `content-length: ${body.length}`], body),
  ),
  'two hosts': lying((lines, body) =>
    framed([...lines, 'host: example.com', `content-length: ${body.length}`], body),
  ),
  'old version': lying((lines, body, pick) =>
    framed(
      [
        lines[0]!.replace(
          'HTTP/1.1',
          pick(['HTTP/1.0', 'HTTP/0.9', 'HTTP/2.0', 'HTTP/9.9', 'HTTP/1.1 ', '']),
        ),
        ...lines.slice(1),
        `content-length: ${body.length}`,
      ],
      body,
    ),
  ),
  'broken header': lying((lines, body, pick) =>
    framed(
      [
        ...lines,
        pick([
          'no colon here',
          ': empty name',
          'na me: x',
          'x: a\u0000b',
          'x: a\rb',
          ' folded: x',
          'x\u00ff: y',
          'x: \u007f\u0001',
        ]),
        `content-length: ${body.length}`,
      ],
      body,
    ),
  ),
  'bare newlines': lying((lines, body) =>
    Buffer.concat([Buffer.from(`${lines.join('\n')}\ncontent-length: ${body.length}\n\n`, 'latin1'), body]),
  ),
  'cut in the head': unfinished((lines, _body, pick) => {
    const whole = framed(lines, Buffer.alloc(0))
    return whole.subarray(0, Math.floor(whole.length * Number(pick(['0.1', '0.5', '0.9']))))
  }),
  'no HTTP': unfinished((_lines, _body, pick) =>
    Buffer.from(
      pick([
        '\u0000\u0000\u0000',
        '\x16\x03\x01\x02\x00\x01\x00',
        'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
        'hello\r\n\r\n',
        '\r\n\r\n\r\n',
        'SSH-2.0-x\r\n',
      ]),
      'latin1',
    ),
  ),
}

type Pick = (texts: readonly string[]) => string
type Frame = (lines: readonly string[], body: Buffer, pick: Pick) => Buffer

/** Bytes that end in the middle of a request; hanging up behind them says that there is no more to come. */
function unfinished(frame: Frame): Wound {
  const lie = lying(frame)
  return (random, draft, scene) => {
    draft.halfClose = true
    return lie(random, draft, scene)
  }
}

function lying(frame: Frame): Wound {
  return (random, draft) => {
    // Drawn here, so that the same place of a seed always lies in the same way.
    const lot = random.next()
    const pick: Pick = (texts) => texts[Math.floor(lot * texts.length)]!
    draft.frame = (lines, body) => frame(lines, body, pick)
    draft.reaches = false
    draft.fresh = true
    draft.mayClose = true
    return true
  }
}

function chunked(body: Buffer): Buffer {
  if (body.length === 0) return Buffer.from('0\r\n\r\n')
  return Buffer.concat([Buffer.from(`${body.length.toString(16)}\r\n`), body, Buffer.from('\r\n0\r\n\r\n')])
}
