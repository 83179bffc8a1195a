/** Thirty days in a row of a table: up is better, and a gap is a day without an answer. */
export function Sparkline({ values, label }: { values: readonly (number | null)[]; label: string }) {
  const known = values.filter((value) => value !== null)
  if (known.length < 2) return <span aria-hidden>–</span>
  const [least, most] = [Math.min(...known), Math.max(...known)]
  const x = (at: number) => (at / (values.length - 1)) * 116 + 2
  const y = (value: number) => (most === least ? 12 : 3 + ((value - least) / (most - least)) * 18)
  let path = ''
  let isOpen = false
  values.forEach((value, at) => {
    if (value === null) {
      isOpen = false
      return
    }
    path += `${isOpen ? 'L' : 'M'}${x(at).toFixed(1)} ${y(value).toFixed(1)}`
    isOpen = true
  })
  return (
    <svg width="120" height="24" viewBox="0 0 120 24" role="img" aria-label={label}>
      <path
        d={path}
        fill="none"
        stroke="var(--mantine-color-indigo-5)"
        strokeWidth="1.6"
        strokeLinejoin="round"
        strokeLinecap="round"
      />
    </svg>
  )
}
