import type { Figures } from '../models/manifest.ts'

const size = 360
const margin = { left: 64, top: 78, right: 24, bottom: 64 }
const width = margin.left + size + margin.right
const height = margin.top + size + margin.bottom

/**
 * A reliability diagram: each bin's promise against what came of it, on the diagonal when it was kept. A dot's area grows
 * with the rows behind it, and its bar shows how far chance alone would scatter them (95 %).
 */
export function reliabilitySvg({ lines, figures }: { lines: [string, string]; figures: Figures }): string {
  const x = (share: number) => (margin.left + share * size).toFixed(1)
  const y = (share: number) => (margin.top + (1 - share) * size).toFixed(1)
  const ticks = [0, 0.2, 0.4, 0.6, 0.8, 1]
  const most = Math.max(...figures.reliability.map(({ examples }) => examples), 1)
  const bins = figures.reliability.map(({ examples, mean_probability, hit_share }) => {
    const [low, high] = wilson(hit_share, examples)
    const radius = (3 + 9 * Math.sqrt(examples / most)).toFixed(1)
    return [
      `<line x1="${x(mean_probability)}" y1="${y(low)}" x2="${x(mean_probability)}" y2="${y(high)}" stroke="#1f5fa8" stroke-width="1.5"/>`,
      `<circle cx="${x(mean_probability)}" cy="${y(hit_share)}" r="${radius}" fill="#1f5fa8" fill-opacity="0.75"><title>${examples} rows: promised ${percent(mean_probability)}, came ${percent(hit_share)}</title></circle>`,
    ].join('\n  ')
  })
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" font-family="sans-serif" font-size="12" fill="#222">
  <title>${escaped(lines.join(', '))}</title>
  <rect width="${width}" height="${height}" fill="#fff"/>
  <text x="${margin.left}" y="24" font-size="15" font-weight="bold">Reliability</text>
  <text x="${margin.left}" y="43" fill="#555">${escaped(lines[0])}</text>
  <text x="${margin.left}" y="60" fill="#555">${escaped(lines[1])}</text>
  ${ticks
    .map(
      (tick) =>
        `<line x1="${x(tick)}" y1="${y(0)}" x2="${x(tick)}" y2="${y(1)}" stroke="#e3e3e3"/><line x1="${x(0)}" y1="${y(tick)}" x2="${x(1)}" y2="${y(tick)}" stroke="#e3e3e3"/>
  <text x="${x(tick)}" y="${margin.top + size + 18}" text-anchor="middle">${percent(tick)}</text><text x="${margin.left - 8}" y="${Number(y(tick)) + 4}" text-anchor="end">${percent(tick)}</text>`,
    )
    .join('\n  ')}
  <line x1="${x(0)}" y1="${y(0)}" x2="${x(1)}" y2="${y(1)}" stroke="#999" stroke-dasharray="5 4"/>
  ${bins.join('\n  ')}
  <text x="${margin.left + size / 2}" y="${height - 24}" text-anchor="middle">probability given to the most probable class</text>
  <text transform="translate(18 ${margin.top + size / 2}) rotate(-90)" text-anchor="middle">how often it came</text>
  <text x="${margin.left + size / 2}" y="${height - 6}" text-anchor="middle" fill="#555">${figures.examples} rows, calibration error ${figures.calibration_error.toFixed(3)}</text>
</svg>
`
}

/** Where a share lies with 95 % certainty, also of few rows that all were hits. */
function wilson(share: number, rows: number): [low: number, high: number] {
  const z = 1.96
  const middle = (share + (z * z) / (2 * rows)) / (1 + (z * z) / rows)
  const reach =
    (z * Math.sqrt((share * (1 - share)) / rows + (z * z) / (4 * rows * rows))) / (1 + (z * z) / rows)
  return [middle - reach, middle + reach]
}

function percent(share: number): string {
  return `${Math.round(share * 100)} %`
}

function escaped(text: string): string {
  return text.replace(/[&<>"]/g, (sign) => `&#${sign.charCodeAt(0)};`)
}
