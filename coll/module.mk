# Sources of coll/.
