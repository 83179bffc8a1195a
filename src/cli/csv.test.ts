import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { readCsv, writeCsvRow } from './csv.ts'

const cellsOf = (text: string) => readCsv(text, true).records.map(({ cells }) => cells)

describe('a CSV text', () => {
  test.each([
    [
      'plain lines',
      'a,b\nc,d\n',
      [
        ['a', 'b'],
        ['c', 'd'],
      ],
    ],
    [
      'no line break at the end',
      'a,b\nc,d',
      [
        ['a', 'b'],
        ['c', 'd'],
      ],
    ],
    [
      'Windows line ends',
      'a,b\r\n"c",d\r\n',
      [
        ['a', 'b'],
        ['c', 'd'],
      ],
    ],
    [
      'empty cells',
      ',\n"",\n',
      [
        ['', ''],
        ['', ''],
      ],
    ],
    [
      'commas, quotes and line breaks in quotes',
      '"a,b","say ""hi""","x\r\ny"\nz,,\n',
      [
        ['a,b', 'say "hi"', 'x\r\ny'],
        ['z', '', ''],
      ],
    ],
    ['a quoted cell at the very end', 'a,"b"', [['a', 'b']]],
    ['a lone quote inside a cell', 'a,5" b\nc,d\n', [undefined, ['c', 'd']]],
    ['text after a closing quote', '"a"b,c\nd,e\n', [undefined, ['d', 'e']]],
    ['a quote that nobody closes', '"a,b\nc,d\n', [undefined, ['c', 'd']]],
    ['nothing', '', []],
  ])('with %s', (_what, text, cells) => {
    expect(cellsOf(text)).toEqual(cells)
  })

  test('counts the lines of each record', () => {
    expect(readCsv('a\n"b\nc\nd",e\nf\n', true).records.map(({ lines }) => lines)).toEqual([1, 3, 1])
  })

  test('keeps what may be unfinished for the next part', () => {
    expect(readCsv('a,b\nc', false)).toMatchObject({ records: [{ raw: 'a,b' }], end: 4 })
    expect(readCsv('a,b\n"c\n', false)).toMatchObject({ records: [{ raw: 'a,b' }], end: 4 })
  })

  test('does not wait for ever for a closing quote', () => {
    const text = `"open\n${'x,y\n'.repeat(20_000)}`
    expect(readCsv(text, false).records[0]).toMatchObject({ raw: '"open', cells: undefined })
    expect(readCsv(text, false).records).toHaveLength(20_001)
  })

  test('reads back any rows that were written', () => {
    const cell = fc.string({ unit: fc.constantFrom('a', ',', '"', '\n', '\r', ' ', '가') })
    const row = fc
      .array(cell, { minLength: 1, maxLength: 4 })
      .filter((cells) => cells.some((one) => one !== ''))
    fc.assert(
      fc.property(fc.array(row, { maxLength: 5 }), (rows) => {
        expect(cellsOf(rows.map(writeCsvRow).join(''))).toEqual(rows)
      }),
    )
  })
})
