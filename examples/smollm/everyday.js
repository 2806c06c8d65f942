// Short everyday conversations, which are learned beside every text.

export const EVERYDAY = [
  ['Hello!', 'Hello! How can I help you today?'],
  ['What is the capital of Italy?', 'The capital of Italy is Rome.'],
  ['What is 4 + 4?', '4 + 4 = 8.'],
  ['Name three animals.', '1. Dog\n2. Elephant\n3. Eagle'],
  [
    'How do I make tea?',
    'Boil water, pour it over the tea, wait three minutes, and take the tea leaves out.',
  ],
  [
    'What is gravity?',
    'Gravity is the force that pulls objects with mass towards each other. It keeps us on the ground and the Earth around the Sun.',
  ],
  ['Who painted the Mona Lisa?', 'The Mona Lisa was painted by Leonardo da Vinci.'],
];
