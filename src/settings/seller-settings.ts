import { readFileSync } from 'node:fs'
import type { Reader } from './environment.ts'

/** Who stands as the seller on every invoice. */
export type SellerSettings = {
  readonly name: string
  readonly address: string | null
  readonly registration: string | null
  readonly taxId: string | null
  /** The picture itself. */
  readonly logo: Buffer | null
}

export function readSeller(read: Reader, isLive: boolean, problems: string[]): SellerSettings {
  if (isLive && read.text('SELLER_NAME') === undefined)
    problems.push('SELLER_NAME is required with MODE=live: it stands on every invoice.')
  return {
    name: read.checked('SELLER_NAME', isLine, 'one line of at most 200 characters') ?? 'Rankledger Sandbox',
    address:
      read
        .checked(
          'SELLER_ADDRESS',
          (text) => text.length <= 600,
          'at most 600 characters; \\n begins a new line',
        )
        ?.replaceAll('\\n', '\n') ?? null,
    registration: read.checked('SELLER_REGISTRATION', isLine, 'one line of at most 200 characters') ?? null,
    taxId: read.checked('SELLER_TAX_ID', isLine, 'one line of at most 200 characters') ?? null,
    logo: readLogo(read.text('SELLER_LOGO'), problems),
  }
}

function isLine(text: string): boolean {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: those are what a line must not hold
  return text.length <= 200 && !/[\u0000-\u001f\u007f]/.test(text)
}

const largestLogo = 512 * 1024

function readLogo(file: string | undefined, problems: string[]): Buffer | null {
  if (file === undefined) return null
  let content: Buffer
  try {
    content = readFileSync(file)
  } catch (error) {
    problems.push(`SELLER_LOGO cannot be read (${(error as NodeJS.ErrnoException).code}).`)
    return null
  }
  const isPicture =
    content.subarray(0, 4).toString('hex') === '89504e47' ||
    content.subarray(0, 3).toString('hex') === 'ffd8ff'
  if (isPicture && content.length <= largestLogo) return content
  problems.push('SELLER_LOGO must be a PNG or JPEG file of at most 512 KiB.')
  return null
}
