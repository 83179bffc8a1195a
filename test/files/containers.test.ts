import { describe, expect, test } from 'vitest'
import { openCp949Decoder } from '../../src/cli/files/cp949.ts'
import { encodingOf } from '../../src/cli/files/text.ts'
import { cp949, understood, utf16, workbookOf, writeSample, zipOf } from './sample-files.ts'

const header = 'date,rank,url,target,keyword,device,country,datacenter,local,custom'
const many = (count: number) =>
  `${header}\n${Array.from({ length: count }, (_, at) => `2026-03-07,${(at % 90) + 1},https://ex.com/,ex.com,나이키 똠 ${at},D,KR,,,`).join('\n')}`

describe('encodings', () => {
  test.each([
    ['UTF-8', (text: string) => Buffer.from(text)],
    ['UTF-8 with a mark', (text: string) => Buffer.from(`\ufeff${text}`)],
    ['UTF-16 LE', (text: string) => utf16(text, 'le')],
    ['UTF-16 BE', (text: string) => utf16(text, 'be')],
    ['UTF-16 LE without a mark', (text: string) => utf16(text, 'le', { mark: false })],
    ['UTF-16 BE without a mark', (text: string) => utf16(text, 'be', { mark: false })],
    ['CP949', cp949],
  ])('%s: every letter arrives, also at the seams of what is read at once', async (name, encode) => {
    const path = writeSample(`${name}.csv`, encode(many(5000)))
    const { fields, ends } = (await understood(path, 'ranks'))!
    expect(fields.map(({ keyword }) => keyword)).toEqual(
      Array.from({ length: 5000 }, (_, at) => `나이키 똠 ${at}`),
    )
    expect(ends.length).toBeGreaterThan(2)
  })

  test('CP949 is more than the older half of it', () => {
    // As Korean Windows writes them: 나, 똠, 가, the last syllable of all, and one cut in two.
    const bytes = Buffer.from([0xb3, 0xaa, 0x8c, 0x63, 0xb0, 0xa1, 0xc6, 0x52, 0x61, 0x81, 0x41, 0xc8, 0xfe])
    const decoder = openCp949Decoder()
    expect(decoder.decode(bytes.subarray(0, 3)) + decoder.decode(bytes.subarray(3)) + decoder.decode()).toBe(
      '나똠가힣a갂힝',
    )
    expect(openCp949Decoder().decode(Buffer.from([0xff, 0x61, 0x8c, 0x0a]))).toBe('\ufffda\ufffd\n')
  })

  test('what is no text, or in no encoding that is known, is told', () => {
    expect(() => encodingOf(Buffer.from([1, 0, 0, 0, 2, 0, 0, 3]))).toThrow('no text')
    expect(() => encodingOf(Buffer.from([0x61, 0xff, 0xff, 0x61]))).toThrow('Save it as UTF-8')
    // The first bytes of a file may end within a letter.
    expect(encodingOf(Buffer.from('나').subarray(0, 2))).toBe('utf-8')
  })

  test('a letter that cannot be read costs its line', async () => {
    const text = `${many(2000)}\n`
    const broken = Buffer.concat([
      Buffer.from(text),
      Buffer.from('2026-03-07,1,null,ex.com,\xff,D,KR,,,\n', 'latin1'),
    ])
    expect((await understood(writeSample('broken.csv', broken), 'ranks'))?.rejected).toEqual([
      [2002, 'wrong_encoding'],
    ])
  })
})

test('from the end of any part the rest is the same, also in a zip', async () => {
  const path = writeSample('packed.zip', zipOf({ 'folder/export.csv': many(5000) }))
  const { records, ends } = (await understood(path, 'ranks'))!
  expect(records).toHaveLength(5000)
  for (const from of ends) {
    const rest = (await understood(path, 'ranks', { from }))!
    expect(rest.records).toEqual(records.slice(from.lines - 1))
  }
})

describe('a wrong file is told politely', () => {
  test.each([
    [
      'another format than was named',
      'a.csv',
      many(1),
      'gsc',
      'This is no file of Google Search Console: its columns are "date", "rank"',
    ],
    ['an old workbook', 'b.xls', Buffer.from([0xd0, 0xcf, 0x11, 0xe0, 0, 0, 0, 0]), undefined, 'before 2007'],
    [
      'a zip that was cut off',
      'c.zip',
      zipOf({ 'Queries.csv': many(50) }).subarray(0, 60),
      undefined,
      'damaged or cut off',
    ],
    ['a zip of pictures', 'd.zip', zipOf({ 'photo.png': 'x' }), undefined, 'holds no CSV file'],
    [
      'a workbook of something else',
      'e.xlsx',
      workbookOf([
        ['Name', 'Age'],
        ['Kim', 3],
      ]),
      undefined,
      'no file in a format that is known here: its columns are "Name", "Age"',
    ],
    ['an empty file', 'f.csv', '', 'gsc', 'it is empty'],
    [
      'volumes where ranks are asked for',
      'g.csv',
      '연관키워드,월간검색수(PC),월간검색수(모바일)\nA,1,2\n',
      undefined,
      'use "rankledger import volumes"',
    ],
  ])('%s', async (_, name, content, format, message) => {
    const options = format === undefined ? {} : { format }
    await expect(understood(writeSample(name, content), 'ranks', options)).rejects.toThrow(message)
  })

  test('plain text that nobody knows may be meant for our own form', async () => {
    expect(await understood(writeSample('h.csv', 'keyword,day,status,postion\n'), 'ranks')).toBeUndefined()
  })
})
