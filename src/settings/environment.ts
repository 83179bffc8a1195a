export type Environment = Readonly<Record<string, string | undefined>>

export type Reader = ReturnType<typeof openReader>

/** Reads variables by name and form, and collects in `problems` what is wrong with them instead of stopping at the first. */
export function openReader(environment: Environment, problems: string[]) {
  const text = (name: string): string | undefined => environment[name]?.trim() || undefined

  const checked = (name: string, accepts: (text: string) => boolean, form: string): string | undefined => {
    const value = text(name)
    if (value === undefined || accepts(value)) return value
    problems.push(`${name} must be ${form}.`)
    return undefined
  }

  return {
    text,
    checked,
    integer(name: string, fallback: number, least: number, most: number): number {
      const value = Number(text(name) ?? fallback)
      if (Number.isInteger(value) && value >= least && value <= most) return value
      problems.push(`${name} must be a whole number from ${least} to ${most}.`)
      return fallback
    },
    optionalInteger(name: string, least: number, most: number): number | undefined {
      return text(name) === undefined ? undefined : this.integer(name, least, least, most)
    },
    oneOf<const T extends readonly string[]>(name: string, values: T, fallback: T[number]): T[number] {
      return checked(name, (value) => values.includes(value), `one of ${values.join(', ')}`) ?? fallback
    },
    url(name: string, protocols: readonly string[]): string | undefined {
      const accepts = (value: string) => URL.canParse(value) && protocols.includes(new URL(value).protocol)
      return checked(
        name,
        accepts,
        `a URL that begins with ${protocols.map((one) => `${one}//`).join(' or ')}`,
      )
    },
    list(name: string): string[] {
      return (text(name) ?? '')
        .split(',')
        .map((item) => item.trim())
        .filter((item) => item !== '')
    },
  }
}

/** An address without path, query or name: of https, or of http where that is allowed for trying out. */
export function isOrigin(text: string, isLive: boolean): boolean {
  if (!URL.canParse(text)) return false
  const { protocol, pathname, search, hash, username } = new URL(text)
  const isBare = pathname === '/' && search === '' && hash === '' && username === ''
  return isBare && (protocol === 'https:' || (protocol === 'http:' && !isLive))
}
