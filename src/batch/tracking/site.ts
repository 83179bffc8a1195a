import { domainToUnicode } from 'node:url'
import { compileRegex, PatternError } from './linear-regex.ts'

export const matchModes = ['host', 'domain', 'prefix', 'regex'] as const
export type MatchMode = (typeof matchModes)[number]

/** Tells whether a result is the site that a tracker looks for. */
export type SiteMatcher = (url: string) => boolean

export type SiteVerdict = { matches: SiteMatcher; site: string; refusal?: never } | { refusal: string }

/**
 * Reads which results count as the site.
 *
 * `host`: that host; a leading `www.` or `m.` makes no difference on either side. `domain`: that domain and everything
 * below it. `prefix`: the host as above, and only pages at or under the path. `regex`: the address of the result holds
 * the pattern. Scheme, case, a final dot and the two spellings of an international name never matter.
 */
export function readSite(site: string, match: MatchMode): SiteVerdict {
  if (match === 'regex') return readPattern(site)
  const url = urlOf(site.trim())
  if (!url) return { refusal: 'A site is a host such as example.com, for `prefix` with a path.' }
  const host = hostOf(url)
  if (!host.includes('.')) return { refusal: 'The host of a site has at least one dot.' }
  if (url.search !== '' || url.hash !== '' || url.username !== '')
    return { refusal: 'A site has no query, fragment or credentials.' }
  const path = pathOf(url)
  if (path !== '/' && match !== 'prefix')
    return { refusal: 'A site with a path needs `match: "prefix"`; otherwise leave the path out.' }

  const bare = withoutSurface(host)
  const shown = domainToUnicode(host) || host
  if (match === 'domain') {
    const domain = host.replace(/^www\./, '')
    return { site: shown, matches: onUrl((found) => isUnder(hostOf(found), domain)) }
  }
  if (match === 'host')
    return { site: shown, matches: onUrl((found) => withoutSurface(hostOf(found)) === bare) }
  const folder = path.endsWith('/') ? path : `${path}/`
  return {
    site: path === '/' ? shown : shown + path,
    matches: onUrl((found) => {
      if (withoutSurface(hostOf(found)) !== bare) return false
      const foundPath = pathOf(found)
      return foundPath === path || `${foundPath}/` === folder || foundPath.startsWith(folder)
    }),
  }
}

const longestPattern = 500
const longestUrl = 2_048

function readPattern(pattern: string): SiteVerdict {
  if (pattern.length > longestPattern)
    return { refusal: `A pattern has at most ${longestPattern} characters.` }
  try {
    const regex = compileRegex(pattern)
    if (regex.test('')) return { refusal: 'This pattern matches everything, also nothing at all.' }
    return { site: pattern, matches: (url) => regex.test(url.slice(0, longestUrl)) }
  } catch (error) {
    if (error instanceof PatternError) return { refusal: error.message }
    throw error
  }
}

function onUrl(test: (url: URL) => boolean): SiteMatcher {
  return (text) => {
    const url = urlOf(text)
    return url !== undefined && test(url)
  }
}

function urlOf(text: string): URL | undefined {
  const full = /^[a-z][a-z0-9+.-]*:\/\//i.test(text) ? text : `https://${text}`
  if (!URL.canParse(full)) return undefined
  const url = new URL(full)
  return url.protocol === 'http:' || url.protocol === 'https:' ? url : undefined
}

/** In lower case and punycode, as URL writes it; a final dot names the same host. */
function hostOf(url: URL): string {
  return url.hostname.replace(/\.$/, '')
}

/** Without the one label that says on which surface a site is shown. */
function withoutSurface(host: string): string {
  const bare = host.replace(/^(?:www|m)\./, '')
  return bare.includes('.') ? bare : host
}

function isUnder(host: string, domain: string): boolean {
  return host === domain || host.endsWith(`.${domain}`)
}

/** Percent signs and case folded, so that two spellings of one path are the same. */
function pathOf(url: URL): string {
  let path = url.pathname
  try {
    path = decodeURI(path)
  } catch {
    // Not UTF-8 behind the percent signs: it is compared as it stands.
  }
  return path.normalize('NFC').toLowerCase()
}
