const unreadable = 0xfffd

/**
 * Reads CP949, in which Korean Windows writes. The decoder that Node has under that name knows only the older half of it, KS X
 * 1001 with its 2,350 syllables: the other 8,822 would come out as rubbish. They follow in the order of Unicode, in the places
 * that KS X 1001 leaves free, so that no table of them is needed.
 */
export function openCp949Decoder(): { decode(bytes?: Uint8Array): string } {
  table ??= makeTable()
  const letters = table
  let lead = 0
  return {
    decode(bytes) {
      let text = ''
      for (const byte of bytes ?? []) {
        if (lead === 0) {
          if (byte < 0x80) text += String.fromCharCode(byte)
          else if (byte === 0x80 || byte === 0xff) text += String.fromCharCode(unreadable)
          else lead = byte
          continue
        }
        const letter = letters[lead * 256 + byte] || unreadable
        lead = 0
        text += String.fromCharCode(letter)
        // The end of a line is never half a letter.
        if (letter === unreadable && byte < 0x41) text += String.fromCharCode(byte)
      }
      if (bytes === undefined && lead !== 0) {
        lead = 0
        text += String.fromCharCode(unreadable)
      }
      return text
    },
  }
}

let table: Uint16Array | undefined

function makeTable(): Uint16Array {
  const letters = new Uint16Array(65_536)
  const decoder = new TextDecoder('euc-kr')
  const isOld = new Set<number>()
  for (let lead = 0xa1; lead <= 0xfe; lead++)
    for (let trail = 0xa1; trail <= 0xfe; trail++) {
      const letter = decoder.decode(Uint8Array.of(lead, trail))
      if (letter.length !== 1 || letter === '\ufffd') continue
      letters[lead * 256 + trail] = letter.charCodeAt(0)
      isOld.add(letter.charCodeAt(0))
    }
  let syllable = 0xac00
  for (let lead = 0x81; lead <= 0xc6; lead++)
    for (let trail = 0x41; trail <= (lead < 0xa1 ? 0xfe : 0xa0); trail++) {
      if ((trail > 0x5a && trail < 0x61) || (trail > 0x7a && trail < 0x81)) continue
      while (isOld.has(syllable)) syllable++
      if (syllable > 0xd7a3) return letters
      letters[lead * 256 + trail] = syllable++
    }
  return letters
}
