import type { Random } from '../simulation/random.ts'

export type Deck<T> = { draw(suits?: (card: T) => boolean): T | undefined }

/** Every card comes before any comes again. One that does not suit stays in the deck. */
export function openDeck<T>(random: Random, cards: readonly T[]): Deck<T> {
  let left: T[] = []
  return {
    draw(suits = () => true) {
      if (left.length === 0) left = random.shuffled(cards)
      const at = left.findIndex(suits)
      return at < 0 ? undefined : left.splice(at, 1)[0]
    },
  }
}
