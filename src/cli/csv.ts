/** A record of a CSV file. A record that breaks the rules of quoting has no cells. */
export type CsvRecord = { raw: string; cells: string[] | undefined; lines: number }

export type CsvPart = {
  records: CsvRecord[]
  /** Where the first record begins that the text may not hold whole. */
  end: number
}

// A quote that nobody closes would swallow the rest of the file; no honest record is longer than this.
const longestRecord = 65_536

/** What stands between two cells. */
export type Separator = ',' | ';' | '\t'

/**
 * Splits text into records by RFC 4180: quoted cells may hold commas, quotes (doubled) and line breaks; lines end with
 * CRLF or LF. `isLast` says that the file ends with this text.
 */
export function readCsv(text: string, isLast: boolean, separator: Separator = ','): CsvPart {
  const records: CsvRecord[] = []
  const hasQuotes = text.includes('"')
  let at = 0
  while (at < text.length) {
    const lineEnd = text.indexOf('\n', at)
    if (lineEnd === -1 && !isLast) break
    const raw = withoutReturn(text.slice(at, lineEnd === -1 ? text.length : lineEnd))
    const next = lineEnd === -1 ? text.length : lineEnd + 1
    if (!hasQuotes || !raw.includes('"')) {
      records.push({ raw, cells: raw.split(separator), lines: 1 })
      at = next
      continue
    }
    const quoted = readQuotedRecord(text, at, separator)
    if (quoted === 'unfinished' && !isLast && text.length - at < longestRecord) break
    if (typeof quoted === 'string') {
      records.push({ raw, cells: undefined, lines: 1 })
      at = next
    } else {
      const record = withoutReturn(text.slice(at, quoted.end).replace(/\n$/, ''))
      records.push({ raw: record, cells: quoted.cells, lines: record.split('\n').length })
      at = quoted.end
    }
  }
  return { records, end: at }
}

function readQuotedRecord(
  text: string,
  start: number,
  separator: Separator,
): { cells: string[]; end: number } | 'unfinished' | 'broken' {
  const cells: string[] = []
  let at = start
  for (;;) {
    const cell = text[at] === '"' ? readQuotedCell(text, at) : readBareCell(text, at, separator)
    if (typeof cell === 'string') return cell
    cells.push(cell.value)
    at = cell.end
    if (text[at] === separator) at++
    else if (at >= text.length) return { cells, end: at }
    else if (text[at] === '\n') return { cells, end: at + 1 }
    else if (text[at] === '\r' && text[at + 1] === '\n') return { cells, end: at + 2 }
    else return 'broken'
  }
}

type Cell = { value: string; end: number }

function readQuotedCell(text: string, start: number): Cell | 'unfinished' {
  let value = ''
  for (let from = start + 1; ; ) {
    const quote = text.indexOf('"', from)
    if (quote === -1 || quote - start > longestRecord) return 'unfinished'
    value += text.slice(from, quote)
    if (text[quote + 1] !== '"') return { value, end: quote + 1 }
    value += '"'
    from = quote + 2
  }
}

const endOfBareCell: Readonly<Record<Separator, RegExp>> = {
  ',': /[,\n"]/g,
  ';': /[;\n"]/g,
  '\t': /[\t\n"]/g,
}

function readBareCell(text: string, start: number, separator: Separator): Cell | 'broken' {
  const ending = endOfBareCell[separator]
  ending.lastIndex = start
  const end = ending.exec(text)?.index ?? text.length
  if (text[end] === '"') return 'broken'
  if (text[end] !== separator && text[end - 1] === '\r' && end > start)
    return { value: text.slice(start, end - 1), end: end - 1 }
  return { value: text.slice(start, end), end }
}

function withoutReturn(line: string): string {
  return line.endsWith('\r') ? line.slice(0, -1) : line
}

/** A row as `readCsv` reads it back. */
export function writeCsvRow(cells: readonly (string | number)[]): string {
  return `${cells.map((cell) => (/[",\r\n]/.test(String(cell)) ? `"${String(cell).replaceAll('"', '""')}"` : cell)).join(',')}\n`
}
