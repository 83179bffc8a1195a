import type { Word } from './words.ts'

export type Place = {
  readonly to: string
  readonly word: Word
  /** Left out for tokens without it. */
  readonly scope?: string
  readonly sandboxOnly?: true
  /** A path of a 24 by 24 icon. */
  readonly icon: string
}

/** Every page of the menu and the palette, in the order of use. */
export const navigation: readonly { readonly title?: Word; readonly places: readonly Place[] }[] = [
  {
    places: [
      { to: '/', word: 'overview', icon: 'M4 13h6V4H4zm10 7h6V4h-6zM4 20h6v-3H4z' },
      {
        to: '/sandbox',
        word: 'sandbox',
        scope: 'admin',
        sandboxOnly: true,
        icon: 'M12 3a9 9 0 1 0 9 9M12 7v5l3 3M21 3v6h-6',
      },
    ],
  },
  {
    title: 'billing',
    places: [
      {
        to: '/subscriptions',
        word: 'subscriptions',
        scope: 'billing:read',
        icon: 'M4 12a8 8 0 0 1 14-5l2 2M20 4v5h-5M20 12a8 8 0 0 1-14 5l-2-2M4 20v-5h5',
      },
      {
        to: '/accounts',
        word: 'accounts',
        scope: 'billing:read',
        icon: 'M12 12a4 4 0 1 0 0-8 4 4 0 0 0 0 8zM4 21c1-4 4-6 8-6s7 2 8 6',
      },
      {
        to: '/invoices',
        word: 'invoices',
        scope: 'billing:read',
        icon: 'M6 3h12v18l-3-2-3 2-3-2-3 2zM9 8h6M9 12h6',
      },
      { to: '/plans', word: 'plans', scope: 'billing:read', icon: 'M4 5h16v5H4zM4 14h16v5H4z' },
      {
        to: '/trials',
        word: 'trials',
        scope: 'billing:read',
        icon: 'M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18zM12 7v5l4 2',
      },
    ],
  },
  {
    title: 'batch',
    places: [
      {
        to: '/keywords',
        word: 'keywords',
        scope: 'batch:read',
        icon: 'M11 18a7 7 0 1 0 0-14 7 7 0 0 0 0 14zM20 20l-4-4',
      },
      {
        to: '/tracking',
        word: 'tracking',
        scope: 'batch:read',
        icon: 'M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18zM12 16a4 4 0 1 0 0-8 4 4 0 0 0 0 8zM12 12h.010',
      },
      { to: '/training', word: 'training', scope: 'batch:read', icon: 'M4 19l5-6 4 3 7-10M15 6h5v5' },
    ],
  },
  {
    title: 'operations',
    places: [
      { to: '/webhooks', word: 'webhooks', scope: 'admin', icon: 'M4 13h4l2 3h4l2-3h4M5 5h14l2 8v6H3v-6z' },
      { to: '/events', word: 'events', scope: 'billing:read', icon: 'M13 3L5 14h6l-1 7 8-11h-6z' },
      { to: '/jobs', word: 'jobs', scope: 'admin', icon: 'M4 7h16M4 12h16M4 17h10' },
      {
        to: '/audit',
        word: 'audit',
        scope: 'admin',
        icon: 'M12 3l8 3v6c0 5-3.500 8-8 9-4.500-1-8-4-8-9V6zM9 12l2 2 4-4',
      },
      {
        to: '/tokens',
        word: 'tokens',
        scope: 'admin',
        icon: 'M8 15a4 4 0 1 1 3.500-6H21v3h-2v3h-3v-3h-4.500A4 4 0 0 1 8 15z',
      },
      {
        to: '/reconciliation',
        word: 'reconciliation',
        scope: 'admin',
        icon: 'M7 4v16M4 7l3-3 3 3M17 20V4M14 17l3 3 3-3',
      },
    ],
  },
]
