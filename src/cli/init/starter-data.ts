// Starter data: training texts, colors and sentences of the starters of `edgetier init`.

export const LABELED_TEXTS: Readonly<Record<string, readonly string[]>> = {
  complaint: [
    "my parcel arrived broken",
    "this is the third time that nobody answers",
    "the app crashes when I pay",
    "I was charged twice and I am angry",
    "your delivery is late again",
  ],
  praise: [
    "thank you, that was quick",
    "great service, I am very happy",
    "the new app is wonderful",
    "your driver was so friendly",
    "best shop that I know",
  ],
  question: [
    "when does my order arrive?",
    "how do I change my address?",
    "do you ship to Norway?",
    "what does returning a parcel cost?",
    "can I pay by invoice?",
  ],
};

/** Red, green and blue from 0 to 255, by label. */
export const COLORS: Readonly<Record<string, readonly number[]>> = {
  red: [220, 40, 30],
  green: [30, 190, 60],
  blue: [20, 60, 210],
};

export const SENTENCES: readonly string[] = [
  "how do i freeze my account",
  "please freeze the account of my card",
  "book a table for two on friday",
  "reserve a table on friday evening",
  "what is the weather in berlin",
  "will it rain in berlin on friday",
];
