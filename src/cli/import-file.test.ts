import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import type { ImportRecord } from '../batch/import.ts'
import { openImportFile, openRejects } from './import-file.ts'

const folder = mkdtempSync(join(tmpdir(), 'rankledger-import-file-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const columns = { known: ['keyword', 'url'], required: ['keyword'] }

async function readAll(path: string, from = { bytes: 0, lines: 0 }) {
  const records: ImportRecord[] = []
  const ends = []
  for await (const chunk of (await openImportFile(path, columns)).read(from)) {
    expect(chunk.records()).toEqual(chunk.records())
    records.push(...chunk.records())
    ends.push(chunk.end)
  }
  return { records, ends }
}

describe('a file read in parts', () => {
  const csvRow = (at: number) =>
    at % 7 === 0
      ? `"kéy ""${at}""","https://example.com/\n${'가'.repeat(at % 50)}"`
      : `키워드 ${at},${'x'.repeat(at % 90)}`

  test.each([
    ['CSV', `\ufeffkeyword,url\r\n${Array.from({ length: 18_000 }, (_, at) => csvRow(at)).join('\r\n')}\r\n`],
    [
      'CSV without a last line break',
      `keyword,url\n${Array.from({ length: 18_000 }, (_, at) => csvRow(at)).join('\n')}`,
    ],
    [
      'JSON lines',
      Array.from({ length: 18_000 }, (_, at) => `{"keyword":"키 ${at}","url":"${'y'.repeat(at % 40)}"}`).join(
        '\n',
      ),
    ],
  ])('%s: from the end of any part the rest is the same', async (name, text) => {
    const path = join(folder, name)
    writeFileSync(path, text)
    const { records, ends } = await readAll(path)
    expect(records).toHaveLength(18_000)
    expect(ends.length).toBeGreaterThan(2)
    expect(ends.at(-1)!.bytes).toBe(Buffer.byteLength(text))
    const lineBreaks = text.split('\n').length - (text.endsWith('\n') ? 1 : 0)
    expect(ends.at(-1)!.lines).toBe(lineBreaks)
    for (const end of ends) {
      const rest = await readAll(path, end)
      expect(rest.records).toEqual(records.slice(records.length - rest.records.length))
      expect(rest.records[0]?.line ?? end.lines + 1).toBe(end.lines + 1)
    }
  })

  test('one broken line costs one line, also in another encoding', async () => {
    const path = join(folder, 'broken.csv')
    writeFileSync(
      path,
      Buffer.concat([
        Buffer.from('keyword,url\na,"b\nc,d\n'),
        Buffer.from([0xff]),
        Buffer.from(',e\n나,f\n'),
      ]),
    )
    const { records } = await readAll(path)
    expect(records).toEqual([
      { line: 2, raw: 'a,"b', code: 'broken_quotes' },
      { line: 3, raw: 'c,d', fields: { keyword: 'c', url: 'd' } },
      { line: 4, raw: '\u00ff,e', code: 'not_utf8' },
      { line: 5, raw: '나,f', fields: { keyword: '나', url: 'f' } },
    ])
  })

  test('its identity changes with its content', async () => {
    const path = join(folder, 'identity.csv')
    writeFileSync(path, 'keyword\na\n')
    const before = (await openImportFile(path, columns)).identity
    expect((await openImportFile(path, columns)).identity).toBe(before)
    writeFileSync(path, 'keyword\nb\n')
    expect((await openImportFile(path, columns)).identity).not.toBe(before)
  })
})

describe('the file of rejected lines', () => {
  const rejection = (line: number) => ({ line, code: 'day_not_real', raw: `row ${line}` })
  const linesOf = (path: string) => readFileSync(path, 'utf8').trimEnd().split('\n').slice(1)

  test('is cut back to where the import goes on', async () => {
    const path = join(folder, 'rejected.csv')
    const first = openRejects(path)
    await first.open(0)
    const length = await first.write([rejection(1), rejection(2)])
    await first.write([rejection(3)])
    await first.close()

    const second = openRejects(path)
    await second.open(length)
    await second.write([rejection(3), rejection(4)])
    await second.close()
    expect(linesOf(path)).toEqual([1, 2, 3, 4].map((line) => `${line},day_not_real,row ${line}`))
  })

  test('starts anew with a new import, and does not come into being without need', async () => {
    const path = join(folder, 'again.csv')
    for (const line of [1, 2]) {
      const rejects = openRejects(path)
      await rejects.open(0)
      await rejects.write([])
      await rejects.write([rejection(line)])
      await rejects.close()
    }
    expect(linesOf(path)).toEqual(['2,day_not_real,row 2'])
    const none = openRejects(join(folder, 'none.csv'))
    await none.open(0)
    expect(await none.write([])).toBe(0)
    await none.close()
    expect(() => readFileSync(join(folder, 'none.csv'))).toThrow('ENOENT')
  })
})
