#include <stdio.h>
#include <stdlib.h>

struct node {
    int value;
    struct node *next;
};

static struct node *push(struct node *head, int value)
{
    struct node *fresh = malloc(sizeof *fresh);
    if (fresh == NULL) {
        perror("malloc");
        exit(EXIT_FAILURE);
    }
    fresh->value = value;
    fresh->next = head;
    return fresh;
}

int main(void)
{
    struct node *list = NULL;
    for (int i = 0; i < 5; i++)
        list = push(list, i * i);
    for (struct node *at = list; at != NULL; at = at->next)
        printf("%d\n", at->value);
    return 0;
}
