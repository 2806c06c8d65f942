CREATE TABLE authors (
    id INTEGER PRIMARY KEY,
    name VARCHAR(80) NOT NULL
);

CREATE TABLE books (
    id INTEGER PRIMARY KEY,
    author_id INTEGER NOT NULL REFERENCES authors (id),
    title VARCHAR(200) NOT NULL,
    published DATE
);

INSERT INTO authors (id, name) VALUES (1, 'Mary Shelley'), (2, 'Jules Verne');
INSERT INTO books (id, author_id, title, published) VALUES
    (1, 1, 'Frankenstein', '1818-01-01'),
    (2, 2, 'Twenty Thousand Leagues Under the Sea', '1870-06-20');

SELECT authors.name, COUNT(*) AS books
FROM authors
JOIN books ON books.author_id = authors.id
GROUP BY authors.name
HAVING COUNT(*) > 0
ORDER BY books DESC;
