import { createContext, type ReactNode, useContext, useEffect, useState } from 'react'
import { IntlProvider, useTranslations } from 'use-intl'
import { type Language, languages, messages, states, type Word } from './words.ts'

const kept = 'rankledger.language'
const Chosen = createContext<{ language: Language; choose: (language: Language) => void }>({
  language: 'en',
  choose: () => {},
})

/** The language of every word, number and date. It is the browser's until another one is chosen. */
export function LanguageProvider({ children }: { children: ReactNode }) {
  const [language, choose] = useState<Language>(firstLanguage)
  useEffect(() => {
    document.documentElement.lang = language
    localStorage.setItem(kept, language)
  }, [language])
  return (
    <Chosen value={{ language, choose }}>
      <IntlProvider locale={language} messages={messages[language]} timeZone="UTC">
        {children}
      </IntlProvider>
    </Chosen>
  )
}

function firstLanguage(): Language {
  const wanted = localStorage.getItem(kept) ?? navigator.language.slice(0, 2)
  return languages.find((one) => one === wanted) ?? 'en'
}

export const useLanguage = () => useContext(Chosen)

export type Say = (word: Word, values?: Record<string, string | number>) => string

export function useSay(): Say {
  return useTranslations() as unknown as Say
}

/** What the API calls a state, said in words. */
export function useStateName(): (state: string) => string {
  const { language } = useLanguage()
  return (state) => states[state]?.[language === 'ko' ? 1 : 0] ?? state.replaceAll('_', ' ')
}
