;;; The prime numbers below a limit, by trial division.

(defun primep (n)
  "Whether N has no divisor but 1 and itself."
  (and (> n 1)
       (loop for d from 2 to (isqrt n)
             never (zerop (mod n d)))))

(defun primes-below (limit)
  (loop for n from 2 below limit
        when (primep n) collect n))

(defvar *limit* 50)

(let ((found (primes-below *limit*)))
  (format t "~a primes below ~a:~%~{~a~^, ~}~%" (length found) *limit* found))
